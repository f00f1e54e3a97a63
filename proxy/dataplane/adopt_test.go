package dataplane

import (
	"errors"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

func TestAdopt(t *testing.T) {
	differs := errors.New("a rule is missing")
	for _, test := range []struct {
		what     string
		inherits bool
		differs  error
		want     string // after the listeners are ready
		adopted  []error
	}{
		{"never", false, nil, "replace 2", nil},
		{"the same", true, nil, "adopt 2", []error{nil}},
		{"a difference", true, differs, "adopt 2; replace 2", []error{differs}},
	} {
		r := newRig()
		var adopted []error
		r.with(func(o *Options) {
			r.written.Has.Adopts, r.written.Differs = true, test.differs
			o.Inherits = func() bool { return test.inherits }
			o.Adopted = func(err error) { adopted = append(adopted, err) }
		})
		opened := portal.ProxyPort{Protocol: inet.UDP, Port: proxyPort}
		r.listeners.opens = map[portal.ProxyPort]bool{opened: true}
		dns := portOf("dns", vip, 0, "10.1.0.1:53")
		r.resync(t, dns)
		want := "serving dns; serve dns; guard map[{IPv4 udp 11000}:true]; " + test.want + "; retire dns"
		if got := r.took(); got != want {
			t.Errorf("%s: %s, want %s", test.what, got, want)
		}
		if r.unheard == nil {
			t.Errorf("%s: nobody looked for flows that began before", test.what)
		}
		if len(adopted) != len(test.adopted) || len(adopted) == 1 && !errors.Is(adopted[0], test.adopted[0]) {
			t.Errorf("%s: told of %v", test.what, adopted)
		}
		r.sync(t, portOf("dns", vip, service.ModeKernel, "10.1.0.1:53"))
		if got := r.took(); got != "serving dns; update 2; leave dns, alive true" {
			t.Errorf("%s, and then a change: %s", test.what, got)
		}
	}
}

// Portals that the writer refuses are found by Replace, and only portals that the host is to have at first are adopted.
func TestAdoptQuarantines(t *testing.T) {
	r := newRig()
	r.with(func(o *Options) {
		r.written.Has.Adopts, r.written.Differs = true, errors.New("it lacks a portal")
		o.Inherits = func() bool { return true }
	})
	r.refusing("bad", false)
	good, bad := some(1)[0], in("bad", some(2)[1])
	r.resync(t, good, bad)
	if r.count("adopt") != 1 || r.quarantined != 1 || r.leads(good) != (portal.Redirect{Port: proxyPort}) ||
		r.leads(bad) != (portal.Reject{}) {
		t.Errorf("%s, %d in quarantine, %T and %T", r.took(), r.quarantined, r.leads(good), r.leads(bad))
	}
}

// A writer that adopts nothing is never asked.
func TestAdoptNot(t *testing.T) {
	r := newRig()
	r.with(func(o *Options) {
		o.Inherits = func() bool { return true }
		o.Adopted = func(err error) { t.Errorf("told of %v", err) }
	})
	r.resync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
	if r.count("replace") != 1 {
		t.Error(r.took())
	}
}
