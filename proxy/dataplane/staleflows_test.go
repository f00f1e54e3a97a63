package dataplane

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// NodePorts at an address of this host, of another one, and at one where the daemon itself listens.
const nodeAt, elsewhere, loopback = "192.0.2.1:30053", "192.0.2.7:30053", "127.0.0.1:30053"

// UDP flows are stale when no portal leads to who answers in them: with listeners that is the proxy port, without it is
// any endpoint that serves. Flows to NodePorts of other hosts are nobody's business.
func TestStaleUDP(t *testing.T) {
	r := newRig()
	terminating := portOf("dns", vip, service.ModeKernel, "10.1.0.1:53", "10.1.0.2:53")
	terminating.Endpoints[1].Ready, terminating.Endpoints[1].Terminating = false, true
	for _, step := range []struct {
		what         string
		port         *service.Port
		valid, stale []string // who answers
	}{
		{"listeners", portOf("dns", vip, 0, "10.1.0.1:53"), []string{"192.0.2.1:11000"},
			[]string{vip, "10.1.0.1:53", "192.0.2.1:11001"}},
		{"the kernel", portOf("dns", vip, service.ModeKernel, "10.1.0.1:53", "10.1.0.2:53"),
			[]string{"10.1.0.1:53", "10.1.0.2:53"}, []string{"192.0.2.1:11000", "10.1.0.3:53"}},
		{"one terminates", terminating, []string{"10.1.0.1:53", "10.1.0.2:53"}, []string{"10.1.0.3:53"}},
		{"one goes", portOf("dns", vip, service.ModeKernel, "10.1.0.1:53"), []string{"10.1.0.1:53"}, []string{"10.1.0.2:53"}},
		{"all go", portOf("dns", vip, service.ModeKernel), nil, []string{"10.1.0.1:53", vip}},
	} {
		r.flows = nil
		r.sync(t, step.port)
		if r.flows == nil {
			t.Fatalf("%s: nobody looked for stale flows", step.what)
		}
		for _, dst := range []string{vip, nodeAt} {
			for want, all := range map[bool][]string{false: step.valid, true: step.stale} {
				for _, from := range all {
					if got := r.stale(dst, from); got != want {
						t.Errorf("%s: a flow to %s that %s answers is stale: %t", step.what, dst, from, got)
					}
				}
			}
		}
		for _, other := range []string{elsewhere, loopback, "10.96.0.10:54"} {
			if r.stale(other, other) {
				t.Errorf("%s: a flow to %s is stale", step.what, other)
			}
		}
	}
	r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
	r.scanned = nil
	if r.sync(t, portOf("dns", vip, 0, "10.1.0.2:53")); r.scanned != nil {
		t.Error("nothing led elsewhere, and yet flows are looked for")
	}
}

// A server of this host that has answered at one of the host's addresses keeps its flows: no rule led them there.
func TestFlowsOfTheHostsServersStay(t *testing.T) {
	r := newRig()
	r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
	if r.flows(flow(inet.UDP, nodeAt, nodeAt, true)) {
		t.Error("a flow that a server of the host answers is stale")
	}
	if !r.flows(flow(inet.UDP, nodeAt, nodeAt, false)) {
		t.Error("a flow that nobody answers is not stale")
	}
}

// tcpOf is portOf for TCP.
func tcpOf(name, frontend string, mode service.Mode, endpoints ...string) *service.Port {
	p := portOf(name, frontend, mode, endpoints...)
	p.Name.Protocol = inet.TCP
	p.Exposures = slices.Clone(p.Exposures)
	for i := range p.Exposures {
		p.Exposures[i].Frontend.Protocol = inet.TCP
	}
	return p
}

// Flows that nobody answered are looked for when a frontend begins to be led somewhere, or otherwise than before, and
// not when its endpoints change or it goes.
func TestLooksForUnansweredFlows(t *testing.T) {
	r := newRig()
	set := func(p *service.Port) func() error {
		return func() error { return r.Sync(t.Context(), []service.Change{{Name: p.Name, Port: p}}) }
	}
	web := func(mode service.Mode, endpoints ...string) *service.Port {
		return tcpOf("web", vip, mode, endpoints...)
	}
	older := tcpOf("older", vip, 0, "10.1.0.9:53")
	older.Created = time.Unix(0, 0)
	for _, step := range []struct {
		what string
		do   func() error
		want bool
	}{
		{"it is there", set(web(0, "10.1.0.1:53")), true},
		{"other endpoints", set(web(0, "10.1.0.2:53")), false},
		{"to the kernel", set(web(service.ModeKernel, "10.1.0.2:53")), true},
		{"other endpoints in the kernel", set(web(service.ModeKernel, "10.1.0.3:53")), false},
		{"no endpoints", set(web(service.ModeKernel)), false},
		{"and again some", set(web(service.ModeKernel, "10.1.0.3:53")), true},
		{"back", set(web(0, "10.1.0.3:53")), true},
		{"an older Service takes its addresses", set(older), false},
		{"and gives them back", func() error { return r.Sync(t.Context(), []service.Change{{Name: older.Name}}) }, false},
		{"all is applied again",
			func() error { return r.Resync(t.Context(), []*service.Port{web(0, "10.1.0.3:53")}) }, true},
		{"it goes", func() error { return r.Sync(t.Context(), []service.Change{{Name: older.Name}, {Name: web(0).Name}}) },
			false},
	} {
		r.scanned = nil
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		unanswered := func(q inet.FlowQuery) bool { return q.Unreplied }
		if got := slices.ContainsFunc(r.scanned, unanswered); got != step.want || len(r.scanned) > 1 {
			t.Errorf("%s: looked %+v, want a look for unanswered flows: %t", step.what, r.scanned, step.want)
		}
	}
}

// An unanswered flow is stale if a portal leads its packets elsewhere, or its ClusterIP has no such port.
func TestStaleUnansweredFlows(t *testing.T) {
	for _, mode := range []service.Mode{service.ModeUserspace, service.ModeKernel} {
		r := newRig()
		r.sync(t, tcpOf("web", vip, mode, "10.1.0.1:53"), tcpOf("itself", "198.51.100.1:53", mode, "198.51.100.1:53"))
		for _, test := range []struct {
			protocol inet.Protocol
			to       string
			want     bool
		}{
			{inet.TCP, vip, true},
			{inet.TCP, nodeAt, true},
			{inet.TCP, "10.96.0.10:54", true}, // nftables refuses it
			{inet.SCTP, vip, true},
			{inet.TCP, elsewhere, false},
			{inet.TCP, loopback, false},
			{inet.TCP, "192.0.2.1:22", false},
			{inet.UDP, nodeAt, false},
			{inet.TCP, "10.96.0.11:53", false},
			{inet.TCP, "198.51.100.1:53", mode == service.ModeUserspace}, // else its endpoint is itself
		} {
			if got := r.unheard(flow(test.protocol, test.to, test.to, false)); got != test.want {
				t.Errorf("mode %s: an unanswered flow of %s to %s is stale: %t", mode, test.protocol, test.to, got)
			}
		}
	}
}

// A Replace that an Update did not do for may bring back rules that were away: all flows are looked through.
func TestFlowsAfterAReplace(t *testing.T) {
	r := newRig()
	r.sync(t, tcpOf("web", vip, 0, "10.1.0.1:53"))
	r.written.Unknown = true
	r.sync(t, portOf("dns", "10.96.0.11:53", service.ModeKernel, "10.1.0.1:53"))
	if !r.unheard(flow(inet.TCP, vip, vip, false)) {
		t.Error("a flow to a frontend that was written again is not stale")
	}
}

// Scans take a tenth of the time at most. A scan that was due too early is made later, by a Sweep, for the state of
// then.
func TestLooksAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.lasts = 50 * time.Millisecond // each of two
		r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
		r.scanned = nil
		r.sync(t, portOf("dns", vip, service.ModeKernel, "10.1.0.1:53"))
		r.sync(t, portOf("dns", vip, service.ModeKernel, "10.1.0.2:53"))
		if r.scanned != nil {
			t.Errorf("looked at once: %+v", r.scanned)
		}
		next, err := r.Sweep(t.Context())
		if wait := time.Until(next); err != nil || r.scanned != nil || wait != 900*time.Millisecond {
			t.Errorf("a sweep: %v, looked %+v, the next in %s", err, r.scanned, wait)
		}
		time.Sleep(time.Until(next))
		if next, err = r.Sweep(t.Context()); err != nil || len(r.scanned) != 2 || !next.IsZero() {
			t.Errorf("in time: %v, looked %+v, the next sweep %s", err, r.scanned, next)
		}
		if r.stale(vip, "10.1.0.2:53") || !r.stale(vip, "10.1.0.1:53") || !r.stale(vip, "192.0.2.1:11000") {
			t.Error("flows are not looked at by the endpoints of now")
		}
	})
}

// A daemon that ends looks at once for what came too early: nobody does later, and its listeners close.
func TestLooksBeforeItLeaves(t *testing.T) {
	alike := func(*service.Port) bool { return true }
	for what, leaves := range map[string]func(*rig) error{
		"the kernel carries on": func(r *rig) error { _, err := r.MoveToKernel(t.Context(), alike); return err },
		"all rules go":          func(r *rig) error { return r.Close(t.Context()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.lasts = 50 * time.Millisecond // each of two
			r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
			r.sync(t, portOf("dns", vip, service.ModeKernel, "10.1.0.1:53"))
			r.scanned, r.flows = nil, nil
			if err := leaves(r); err != nil || r.flows == nil {
				t.Fatalf("%s: %v, looked %+v", what, err, r.scanned)
			}
			if r.stale(vip, "10.1.0.1:53") || !r.stale(vip, "192.0.2.1:11000") {
				t.Errorf("%s: flows are not looked at by the endpoints of now", what)
			}
		})
	}
}

// A look that fails is reported, and rules are no worse for it.
func TestLooksMayFail(t *testing.T) {
	r := newRig()
	var reported error
	r.with(func(o *Options) { o.Warn = func(err error) { reported = err } })
	r.blind = errors.New("not permitted")
	r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
	if !errors.Is(reported, r.blind) {
		t.Errorf("reported: %v", reported)
	}
}

// A look that the end of the daemon interrupts is repeated before it leaves: else flows lead on to its ports, which the
// next daemon gives to others.
func TestLooksAgainBeforeItLeaves(t *testing.T) {
	r := newRig()
	r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.blind = ctx.Err()
	if err := r.Sync(ctx, []service.Change{{Name: portOf("dns", vip, 0).Name,
		Port: portOf("dns", vip, service.ModeKernel, "10.1.0.1:53")}}); err != nil {
		t.Fatal(err)
	}
	r.blind, r.flows = nil, nil
	if _, err := r.MoveToKernel(t.Context(), func(*service.Port) bool { return true }); err != nil || r.flows == nil {
		t.Fatalf("%v, looked %+v", err, r.scanned)
	}
	if r.stale(vip, "10.1.0.1:53") || !r.stale(vip, "192.0.2.1:11000") {
		t.Error("flows of the Service that the kernel had got are not looked for")
	}
}

// A scan that failed stays due. It is repeated soon, then less and less often, and reported once.
func TestFailedLooksAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		reported := 0
		r.with(func(o *Options) { o.Warn = func(error) { reported++ } })
		r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
		r.blind = errors.New("no buffer space available")
		r.sync(t, portOf("dns", vip, service.ModeKernel, "10.1.0.1:53"))
		sweep := func() time.Duration {
			t.Helper()
			r.scanned, r.flows, r.unheard = nil, nil, nil
			next, err := r.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if next.IsZero() {
				return 0
			}
			return time.Until(next)
		}
		for _, want := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
			want *= time.Millisecond
			wait := sweep()
			if wait != want || r.scanned != nil {
				t.Fatalf("the next look in %s, want %s; looked %+v", wait, want, r.scanned)
			}
			time.Sleep(wait)
			sweep()
		}
		r.blind = nil
		time.Sleep(time.Second)
		if wait := sweep(); wait != 0 || r.flows == nil || r.unheard == nil {
			t.Fatalf("when it is possible again: looked %+v, the next in %s", r.scanned, wait)
		}
		if r.stale(vip, "10.1.0.1:53") || !r.stale(vip, "192.0.2.1:11000") {
			t.Error("flows of the frontend that changed are not looked for")
		}
		r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
		if sweep(); r.scanned != nil || reported != 1 {
			t.Errorf("afterwards: looked %+v; reported %d times", r.scanned, reported)
		}
		r.blind = errors.New("again")
		if r.sync(t, portOf("dns", vip, service.ModeKernel, "10.1.0.1:53")); reported != 2 {
			t.Errorf("another failure: reported %d times", reported)
		}
	})
}

// A look after none for a while is at once, however long the last one took.
func TestLooksAtOnceAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.lasts = time.Minute
		r.sync(t, portOf("dns", vip, 0, "10.1.0.1:53"))
		time.Sleep(time.Second)
		r.scanned = nil
		if r.sync(t, portOf("dns", vip, service.ModeKernel, "10.1.0.1:53")); r.scanned == nil {
			t.Error("it waits")
		}
	})
}

// The former state of a frontend is its state before all changes of a sync.
func TestNewest(t *testing.T) {
	f := service.Frontend{}
	was, meanwhile, is := &portal.Portal{}, &portal.Portal{}, &portal.Portal{}
	got := newest([]portal.Change{{Frontend: f, Portal: meanwhile, Was: was}, {Frontend: f, Portal: is, Was: meanwhile}})
	if len(got) != 1 || got[0].Portal != is || got[0].Was != was {
		t.Errorf("%+v", got)
	}
}
