package ipvs

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

const vip = "10.96.0.1:80"

// wait is for a machine without hardware to run on.
const wait = 10 * time.Second

// lead is a ClusterIP that spreads over pods.
func lead(parties ...*portaltest.Party) portal.Portal {
	var endpoints []string
	for _, p := range parties {
		endpoints = append(endpoints, "!"+netip.AddrPortFrom(p.Addrs.V4, 8080).String())
	}
	return spread(service.ClusterIP, vip, inet.TCP, endpoints...)
}

func (n *node) change(p *portal.Portal) {
	n.Helper()
	f := service.Frontend{Addr: netip.MustParseAddrPort(vip), Protocol: inet.TCP}
	n.Node.Must(func() error { return n.ours.Update(context.Background(), []portal.Change{{Frontend: f, Portal: p}}) })
	n.audit()
}

// reach dials until the endpoint of that name answers; "" is the daemon's stand-in.
func (n *node) reach(from *netnstest.Namespace, name string) *portaltest.Call {
	n.Helper()
	for range 4 {
		call, err := portaltest.Dial(from, "tcp", vip, netip.Addr{}, wait)
		if err != nil {
			n.Fatal(err)
		}
		n.Cleanup(call.Close)
		if r := call.Ask(); r.Came == portaltest.Answered && r.By == name {
			return call
		} else if r.Came != portaltest.Answered {
			n.Fatalf("answer %v", r)
		}
	}
	n.Fatalf("%q does not answer", name)
	return nil
}

// An open connection outlives all that may happen to its portal, while new ones go where they should.
func TestOpenConnectionLivesOn(t *testing.T) {
	n := newNode(t, nil)
	a, b := n.AddPod("a", "pod1", 1), n.AddPod("b", "pod2", 2)
	both, onlyB := lead(a, b), lead(b)
	n.Write([]portal.Portal{both})
	var open []*portaltest.Call
	for _, from := range []*netnstest.Namespace{n.Client, n.Node} {
		open = append(open, n.reach(from, "a"))
	}
	redirect := both
	redirect.Target = portal.Redirect{Port: portaltest.ProxyPort}
	for _, step := range []struct {
		name   string
		portal *portal.Portal
		by     string // of new connections; - = not asked
		weight int    // of a; -1 = it is not there
	}{
		{"its endpoint is removed", &onlyB, "b", 0},
		{"its endpoint comes back", &both, "a", 1},
		{"redirected", &redirect, "", 0},
		{"spread again", &both, "a", 1},
		{"the portal goes", nil, "-", 0},
		{"the portal comes back", &both, "a", 1},
	} {
		n.change(step.portal)
		for _, from := range []*netnstest.Namespace{n.Client, n.Node} {
			if step.by != "-" {
				n.reach(from, step.by)
			}
		}
		for _, call := range open {
			if r := call.Ask(); r.Came != portaltest.Answered || r.By != "a" {
				t.Errorf("%s: an open connection of a has %v", step.name, r)
			}
		}
		if got := n.weight(a); got != step.weight {
			t.Errorf("%s: weight %d, want %d", step.name, got, step.weight)
		}
	}
	n.restart()
	n.Write([]portal.Portal{onlyB})
	for _, call := range open {
		if r := call.Ask(); r.Came != portaltest.Answered || r.By != "a" {
			t.Errorf("after a restart without its endpoint: an open connection of a has %v", r)
		}
	}
	n.audit()
	n.Node.Must(func() error { return n.ours.Cleanup(context.Background()) })
	n.clean()
}

// installed are the endpoints of vip.
func (n *node) installed() []destination {
	n.Helper()
	f := service.Frontend{Addr: netip.MustParseAddrPort(vip), Protocol: inet.TCP}
	all, err := n.ours.destinations(f)
	if err != nil {
		n.Fatal(err)
	}
	return all
}

func (n *node) weight(p *portaltest.Party) int {
	n.Helper()
	for _, d := range n.installed() {
		if d.addr.Addr() == p.Addrs.V4 {
			return d.weight
		}
	}
	return -1
}

// restart has another Writer take over.
func (n *node) restart() {
	n.Helper()
	n.Node.Must(func() error {
		w, err := open(n.TB, nil)
		n.ours, n.Writer = w, w
		return err
	})
}

// clean expects that nothing of ours is left.
func (n *node) clean() {
	n.Helper()
	if all, err := n.ours.virtualServers(); err != nil || len(all) > 0 {
		n.Errorf("virtual servers are left: %v, %v", all, err)
	}
	if device, _, err := n.ours.hostAddresses(); err != nil || len(device) > 0 {
		n.Errorf("addresses are left: %v, %v", device, err)
	}
	for _, s := range n.ours.names.allSets() {
		if _, there, err := n.ours.elementsOf(s); there || err != nil {
			n.Errorf("set %s is left: %v", s.name, err)
		}
	}
}

func TestSchedulers(t *testing.T) {
	n := newNode(t, nil)
	a := n.AddPod("a", "pod1", 1)
	for _, scheduler := range schedulers {
		n.ours.Scheduler = scheduler
		n.Write([]portal.Portal{lead(a)})
		n.audit()
		n.reach(n.Client, "a").Close()
		if err := Usable(Options{Scheduler: scheduler}); err != nil {
			t.Error(err)
		}
	}
}
