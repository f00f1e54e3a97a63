package userspace

import (
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy"
)

// A change of endpoints reaches clients while a longer pause between two writes of rules lasts, and writes none.
func TestEndpointsDoNotWaitForRules(t *testing.T) {
	r := newRig(t, DefaultPortRange())
	store, synced := service.NewStore(), make(chan struct{})
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	applied := make(chan proxy.Sync, 9)
	loop := &proxy.Loop{Store: store, Dataplane: r.plane, Sweeper: r.plane, Log: log, MinSync: time.Hour,
		Watcher: proxy.Watcher{Synced: func(s proxy.Sync) { applied <- s }}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loop.Run(t.Context(), synced)
	}()
	close(synced)
	<-applied // all of nothing
	set := func(p *service.Port) {
		store.Set(service.Name{Namespace: p.Name.Namespace, Name: p.Name.Name}, []*service.Port{p})
	}
	within := func(what string) {
		t.Helper()
		select {
		case <-applied:
		case <-time.After(5 * time.Second):
			t.Fatalf("%s waits for the next write of rules", what)
		}
	}
	t.Cleanup(func() { <-ended })
	set(portOf("cart", "10.96.0.1:80", greeter(t)))
	within("the first Service")
	r.took()
	for range 3 {
		set(portOf("cart", "10.96.0.1:80", greeter(t)))
		within("a change of endpoints")
	}
	if wrote := r.took(); wrote != "" {
		t.Errorf("it wrote: %s", wrote)
	}
	set(portOf("cart", "10.96.0.1:80")) // the portal is to refuse clients: a rule
	select {
	case s := <-applied:
		t.Errorf("rules were written in the pause: %v", s.Changes)
	case <-time.After(100 * time.Millisecond):
	}
}
