package daemon

import (
	"context"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/succession"
)

// How often a daemon that was succeeded looks for the one that serves the node, and how often in a row it finds none
// before it takes it for gone.
const (
	lookEvery = time.Second
	missedFor = 5
)

// rest waits until a daemon is told to end that was succeeded in a pod: the kubelet would start its container again.
// Which it shall once no daemon serves the node any more.
func rest(told context.Context, state *succession.State, log logrus.FieldLogger) {
	if _, pod := os.LookupEnv("KUBERNETES_SERVICE_HOST"); !pod {
		return
	}
	log.Info("Hand-over done: idle until the pod is deleted")
	for missed := 0; missed < missedFor; {
		if backoff.Sleep(told, lookEvery) != nil {
			return
		}
		if missed++; state.AnotherAnswers() || state.AnotherHasLock() {
			missed = 0
		}
	}
	log.Warn("The successor is gone, and no other portald serves this node: ending, to be started again")
}
