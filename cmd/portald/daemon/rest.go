package daemon

import (
	"context"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/succession"
)

// How often a daemon that was succeeded checks whether another one serves the node, and after how many checks in a row
// without one it takes that for gone.
const (
	pollPeriod = time.Second
	missedFor  = 5
)

// rest waits until a daemon is told to end that was succeeded in a pod: the kubelet would start its container again.
// Which it shall once no daemon serves the node any more.
func rest(told context.Context, state *succession.State, log logrus.FieldLogger) {
	if _, pod := os.LookupEnv("KUBERNETES_SERVICE_HOST"); !pod {
		return
	}
	log.Info("Hand-over done: idle until the pod is deleted")
	for missed := 0; missed < missedFor; {
		if backoff.Sleep(told, pollPeriod) != nil {
			return
		}
		if missed++; state.AnotherAnswers() || state.AnotherHasLock() {
			missed = 0
		}
	}
	log.Warn("The successor is gone, and no other portald serves this node: ending, to be started again")
}
