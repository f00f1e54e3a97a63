package ipvs

import (
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Changes by other programs show, and the Writer's own do not.
func TestDisturbed(t *testing.T) {
	k := newFake("192.0.2.1")
	w, _ := k.writer(t, Options{})
	if w.Disturbed() {
		t.Error("disturbed before anything was written")
	}
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first)
	for _, test := range []struct {
		what   string
		others func()
		bad    bool
	}{
		{"somebody's virtual server", func() { k.servers[front("192.0.2.1:81", inet.TCP)] = settings{} }, false},
		{"no virtual server", func() { clear(k.servers); clear(k.ends) }, true},
		{"an empty set", func() { clear(k.sets[w.names.set(served, inet.IPv4)]) }, true},
	} {
		replace(t, w, p)
		if w.Disturbed() {
			t.Errorf("before %s: disturbed", test.what)
		}
		if test.others(); !w.Disturbed() {
			t.Errorf("%s does not show", test.what)
		}
		if err := w.Audit(t.Context()); (err != nil) != test.bad {
			t.Errorf("%s: %v", test.what, err)
		}
		if !test.bad && w.Disturbed() {
			t.Errorf("%s: disturbed after an audit", test.what)
		}
	}
}
