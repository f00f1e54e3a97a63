package daemon

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/succession"
	"github.com/portald/portald/proxy/succession/handover"
)

// A daemon that was succeeded in a pod rests until it is told to end, or until nobody has served the node for seconds.
func TestRest(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	path := filepath.Join(t.TempDir(), "s")
	log := logrus.New()
	log.SetOutput(io.Discard)
	state := succession.NewState(path)
	serve := func() io.Closer {
		l, err := platform.ListenPrivate(platform.PacketSocket, path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	// after tells whether rest has ended after that time.
	after := func(ended chan struct{}, passed time.Duration) bool {
		time.Sleep(passed)
		synctest.Wait()
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	run := func(told context.Context) chan struct{} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			rest(told, state, log)
		}()
		return ended
	}
	synctest.Test(t, func(t *testing.T) {
		told, tell := context.WithCancel(t.Context())
		successor := serve()
		ended := run(told)
		if after(ended, time.Minute) {
			t.Error("it ended while another served the node")
		}
		if tell(); !after(ended, 0) {
			t.Fatal("it was told to end, and rests")
		}
		ended = run(t.Context())
		_ = successor.Close()
		if after(ended, 4500*time.Millisecond) {
			t.Error("it ended before the successor had time to start again")
		}
		successor = serve()
		if after(ended, time.Minute) {
			t.Error("it ended although the successor was back")
		}
		lock, err := handover.TryLock(path)
		if err != nil {
			t.Fatal(err)
		}
		_ = successor.Close()
		if after(ended, time.Minute) {
			t.Error("it ended while another served the node that could not listen")
		}
		_ = lock.Close()
		if !after(ended, 6*time.Second) {
			t.Fatal("nobody serves the node, and it rests")
		}
	})
}
