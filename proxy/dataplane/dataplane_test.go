package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/kernel"
)

// diary notes events, in order.
type diary struct{ lines []string }

func (d *diary) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) took() string {
	defer func() { d.lines = nil }()
	return strings.Join(d.lines, "; ")
}

// listeners is a Carrier whose proxy port is always the same.
type listeners struct {
	*diary
	fail error

	opens, closes map[portal.ProxyPort]bool // with the next Serve and Retire
	ports         map[portal.ProxyPort]bool // opened and closed, and not told of
}

func (l *listeners) ProxyPorts() map[portal.ProxyPort]bool {
	defer func() { l.ports = nil }()
	return l.ports
}

const proxyPort = 11000

func (l *listeners) Serve(p *service.Port) (out []portal.Portal, err error) {
	l.add("serve %s", p.Name.Name)
	l.ports, l.opens = l.opens, nil
	for _, x := range p.Exposures {
		target := portal.Target(portal.Redirect{Port: proxyPort})
		if l.fail != nil || len(p.Endpoints) == 0 {
			target = portal.Reject{}
		}
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: target})
	}
	return out, l.fail
}

// PlannedPortals implements Planner for a proxy port that is open.
func (l *listeners) PlannedPortals(p *service.Port) ([]portal.Portal, func() error) {
	quiet := listeners{diary: &diary{}}
	portals, err := quiet.Serve(p)
	if err != nil || l.opens != nil {
		return nil, nil
	}
	return portals, func() error {
		l.add("serve %s as planned", p.Name.Name)
		return l.fail
	}
}

func (l *listeners) Retire(served []service.PortName, left []service.Change) error {
	l.ports, l.closes = l.closes, nil
	for _, name := range served {
		l.add("retire %s", name.Name)
	}
	for _, c := range left {
		l.add("leave %s, alive %t", c.Name.Name, c.Port != nil)
	}
	return nil
}

// Sweep closes what it was told to.
func (l *listeners) Sweep(context.Context) (time.Time, error) {
	l.ports, l.closes = l.closes, nil
	return time.Time{}, nil
}

type rig struct {
	*Dataplane
	*diary
	written     *portaltest.Fake // what the host has
	listeners   *listeners
	scanned     []inet.FlowQuery     // for stale flows
	flows       func(inet.Flow) bool // whether one is stale, by the last scan of UDP flows
	unheard     func(inet.Flow) bool // and for those that nobody answered
	lasts       time.Duration        // each look
	blind       error                // of these
	contested   []portal.Conflict
	refusals    []Refusal
	quarantined int
}

// newFake is a Writer of redirects to the listeners' port, whose calls a diary has.
func newFake(d *diary) *portaltest.Fake {
	w := portaltest.NewFake()
	w.Has.Opens = true
	w.Called, w.Invalid = d.add, writer.Limits{ProxyPorts: inet.PortRange{First: proxyPort, Last: proxyPort}}.Check
	return w
}

func newRig() *rig {
	d := &diary{}
	r := &rig{diary: d, written: newFake(d),
		listeners: &listeners{diary: d}}
	r.Dataplane = New(Options{
		Writer: r.written, Userspace: r.listeners, Kernel: kernel.New(kernel.Options{}), Mode: service.ModeUserspace,
		Contested:   func(c portal.Conflict) { r.contested = append(r.contested, c) },
		Refused:     func(n Refusal) { r.refusals = append(r.refusals, n) },
		Quarantined: func(n int) { r.quarantined = n },
		Own:         func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.1") || a.IsLoopback() },
		DeleteFlows: func(_ context.Context, q inet.FlowQuery, stale func(inet.Flow) bool) (int, error) {
			if r.scanned = append(r.scanned, q); q.Unreplied {
				r.unheard = stale
			} else {
				r.flows = stale
			}
			time.Sleep(r.lasts)
			return 0, r.blind
		},
		Serving:   func(p *service.Port) { d.add("serving %s", p.Name.Name) },
		Closed:    func(n service.PortName) { d.add("closed %s", n.Name) },
		Rewritten: func(err error) { d.add("rewritten after %v", err) },
	})
	return r
}

// with has the rig go on with a Dataplane of other options.
func (r *rig) with(change func(*Options)) {
	opts := r.opts
	change(&opts)
	r.Dataplane = New(opts)
}

// stale tells whether the last look for UDP flows would delete an answered one.
func (r *rig) stale(to, replier string) bool {
	return r.flows(flow(inet.UDP, to, replier, true))
}

func flow(protocol inet.Protocol, to, replier string, answered bool) inet.Flow {
	return inet.Flow{Protocol: protocol, To: netip.MustParseAddrPort(to),
		Replier: netip.MustParseAddrPort(replier), Replied: answered}
}

func portOf(name, frontend string, mode service.Mode, endpoints ...string) *service.Port {
	p := &service.Port{Name: service.PortName{Namespace: "shop", Name: name, Protocol: inet.UDP},
		Created: time.Unix(1, 0), Mode: mode}
	for i, at := range []string{frontend, "0.0.0.0:30053"} {
		f := service.Frontend{Addr: netip.MustParseAddrPort(at), Protocol: inet.UDP}
		p.Exposures = append(p.Exposures, service.Exposure{Frontend: f, Kind: service.Kind(i)})
	}
	for _, e := range endpoints {
		p.Endpoints = append(p.Endpoints, service.Endpoint{Addr: netip.MustParseAddrPort(e), Ready: true, Serving: true})
	}
	return p
}

func (r *rig) sync(t *testing.T, ports ...*service.Port) {
	t.Helper()
	var changes []service.Change
	for _, p := range ports {
		changes = append(changes, service.Change{Name: p.Name, Port: p})
	}
	if err := r.Sync(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

const vip = "10.96.0.10:53"

func (r *rig) target() portal.Target {
	return r.written.Portals[service.Frontend{Addr: netip.MustParseAddrPort(vip), Protocol: inet.UDP}].Target
}

// Whatever carries a service port gets ready before portals lead to it, and closes only once they lead elsewhere.
func TestOrder(t *testing.T) {
	r := newRig()
	for _, step := range []struct {
		what, want string
		port       *service.Port
	}{
		{"new", "serving dns; serve dns; update 2; retire dns", portOf("dns", vip, 0, "10.1.0.1:53")},
		{"endpoints alone", "serving dns; serve dns; retire dns", portOf("dns", vip, 0, "10.1.0.2:53")},
		{"to the kernel", "serving dns; update 2; leave dns, alive true",
			portOf("dns", vip, service.ModeKernel, "10.1.0.2:53")},
		{"the same again", "serving dns; leave dns, alive true", portOf("dns", vip, service.ModeKernel, "10.1.0.2:53")},
		{"other endpoints", "serving dns; update 2; leave dns, alive true",
			portOf("dns", vip, service.ModeKernel, "10.1.0.1:53")},
		{"back", "serving dns; serve dns; update 2; retire dns", portOf("dns", vip, 0, "10.1.0.1:53")},
	} {
		r.sync(t, step.port)
		if got := r.took(); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
	if err := r.Sync(t.Context(), []service.Change{{Name: portOf("dns", vip, 0).Name}}); err != nil {
		t.Fatal(err)
	}
	if got := r.took(); got != "update 2; leave dns, alive false; closed dns" || len(r.ports) != 0 {
		t.Errorf("gone: %s, %d ports left", got, len(r.ports))
	}
}

// A proxy port is guarded with the portals that lead there, and until its listener is closed.
func TestGuardOrder(t *testing.T) {
	r := newRig()
	port := portal.ProxyPort{Protocol: inet.UDP, Port: proxyPort}
	dns := portOf("dns", vip, 0, "10.1.0.1:53")
	r.listeners.opens = map[portal.ProxyPort]bool{port: true}
	r.sync(t, dns)
	if got := r.took(); got != "serving dns; serve dns; guard map[{IPv4 udp 11000}:true]; update 2; retire dns" {
		t.Errorf("opened: %s", got)
	}
	r.listeners.closes = map[portal.ProxyPort]bool{port: false}
	if err := r.Sync(t.Context(), []service.Change{{Name: dns.Name}}); err != nil {
		t.Fatal(err)
	}
	want := "update 2; leave dns, alive false; closed dns; guard map[{IPv4 udp 11000}:false]; update 0"
	if got := r.took(); got != want {
		t.Errorf("closed: %s", got)
	}
	r.listeners.closes = map[portal.ProxyPort]bool{port: false}
	if _, err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.took(); got != "guard map[{IPv4 udp 11000}:false]; update 0" {
		t.Errorf("closed for want of anybody: %s", got)
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		daemon, asked service.Mode
		spread        bool
	}{
		{service.ModeUserspace, service.ModeDefault, false},
		{service.ModeUserspace, service.ModeKernel, true},
		{service.ModeKernel, service.ModeDefault, true},
		{service.ModeKernel, service.ModeUserspace, false},
	} {
		r := newRig()
		r.with(func(o *Options) { o.Mode = c.daemon })
		r.sync(t, portOf("dns", vip, c.asked, "10.1.0.1:53"))
		if _, spread := r.target().(portal.Spread); spread != c.spread {
			t.Errorf("daemon %s, Service %q: leads to %T", c.daemon, c.asked, r.target())
		}
	}
}

// For the time without the daemon the kernel carries all that it can, and refuses the rest. Listeners stay for what is
// on its way, and UDP flows to them until they close.
func TestMoveToKernel(t *testing.T) {
	for _, broken := range []bool{false, true} {
		r := newRig()
		header := portOf("header", "10.96.0.12:53", 0, "10.1.0.1:53")
		header.Policy.ClientAddress = service.AddressProxyV2
		r.sync(t, portOf("dns", vip, service.ModeUserspace, "10.1.0.1:53"),
			portOf("kernel", "10.96.0.11:53", service.ModeKernel, "10.1.0.1:53"), header)
		r.took()
		r.scanned = nil
		r.written.Unknown = broken
		moved, err := r.MoveToKernel(t.Context(),
			func(p *service.Port) bool { return p.Policy.ClientAddress != service.AddressProxyV2 })
		if err != nil || moved != 2 || r.scanned != nil {
			t.Fatalf("%d moved, %v, looked for stale flows: %v", moved, err, r.scanned)
		}
		if said := r.took(); !strings.Contains(said, "; update 3") || strings.Contains(said, "replace") != broken ||
			strings.Contains(said, "leave") {
			t.Error(said)
		}
		for f, p := range r.written.Portals {
			_, spread := p.Target.(portal.Spread)
			if _, refused := p.Target.(portal.Reject); spread == (p.Owner.Name == "header") || refused == spread {
				t.Errorf("%s of %s leads to %T", f, p.Owner, p.Target)
			}
		}
		if err := r.DeleteFlows(t.Context()); err != nil ||
			!r.stale(vip, "192.0.2.1:11000") {
			t.Errorf("%v, or a flow to a listener that closes is not stale", err)
		}
	}
}

// After the last portal flows have no listener to lead to. Flows of another service proxy go on.
func TestClose(t *testing.T) {
	r := newRig()
	r.sync(t, portOf("dns", vip, service.ModeUserspace, "10.1.0.1:53"))
	r.took()
	if err := errors.Join(r.Close(t.Context()), r.DeleteFlows(t.Context())); err != nil || r.took() != "replace 0" {
		t.Errorf("%v, %s", err, r.took())
	}
	for from, stale := range map[string]bool{"192.0.2.1:11000": true, vip: true, "10.1.0.1:53": false} {
		if r.stale(vip, from) != stale {
			t.Errorf("a flow that %s answers is stale: %t, want %t", from, !stale, stale)
		}
	}
}

// A mode that the daemon does not have refuses clients, and is told.
func TestNoCarrier(t *testing.T) {
	r := newRig()
	r.with(func(o *Options) { o.Kernel = nil })
	p := portOf("dns", vip, service.ModeKernel, "10.1.0.1:53")
	r.sync(t, p)
	if len(r.refusals) != 1 || !errors.Is(r.refusals[0].Err, errNoCarrier) || r.refusals[0].Reason != ByMode ||
		r.target() != (portal.Reject{}) {
		t.Errorf("%v, leads to %T", r.refusals, r.target())
	}
	other := *p
	other.Mode = service.ModeUserspace
	if r.sync(t, &other); r.target() != (portal.Redirect{Port: proxyPort}) || r.quarantined != 0 {
		t.Errorf("in another mode it leads to %T, %d in quarantine", r.target(), r.quarantined)
	}
}

func TestContested(t *testing.T) {
	r := newRig()
	older, younger := portOf("older", vip, 0, "10.1.0.1:53"), portOf("younger", vip, 0, "10.1.0.1:53")
	younger.Created = time.Unix(2, 0)
	r.sync(t, younger)
	r.sync(t, older)
	if len(r.contested) != 2 || r.contested[0].Loser != younger.Name || r.contested[0].Holder != older.Name {
		t.Errorf("told of %v", r.contested)
	}
}

// A failed update is made good by a resync, and nothing closes before portals are known to have left it.
func TestFailedUpdate(t *testing.T) {
	r := newRig()
	p := portOf("dns", vip, 0, "10.1.0.1:53")
	r.sync(t, p)
	r.took()
	r.written.Err = errors.New("no lock")
	if err := r.Sync(t.Context(), []service.Change{{Name: p.Name}}); err == nil || slices.Contains(r.lines, "closed dns") {
		t.Errorf("error %v, %s", err, r.took())
	}
	r.written.Err = nil
	r.took()
	if err := r.Resync(t.Context(), nil); err != nil || r.took() != "replace 0; leave dns, alive false; closed dns" {
		t.Errorf("error %v", err)
	}
}
