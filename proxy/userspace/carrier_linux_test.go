package userspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
)

type rig struct {
	*Carrier
	plane    *dataplane.Dataplane
	refusals []dataplane.Refusal
	written  *portaltest.Fake // what the host has
	log      *test.Hook
}

// linger is long enough to be seen, and short enough to wait for.
const linger = 300 * time.Millisecond

// insider is a loopback address that stands for a client inside the cluster; all others are outside.
var insider = netip.MustParseAddr("127.0.0.2")

func newRig(t *testing.T, ports inet.PortRange) *rig {
	t.Helper()
	engine, err := splice.New(splice.Options{IsLocal: func(client netip.Addr, _ int) bool { return client == insider }},
		epoll.Open(2, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // t's ends before the fronts are closed
	done := make(chan struct{})
	go func() {
		defer close(done)
		engine.Run(ctx)
	}()
	log, hook := test.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	r := &rig{written: portaltest.NewFake(), log: hook}
	r.Carrier = New(Options{Core: engine, Ports: ports, Log: log, Localhost: [2]bool{true, true}, Linger: linger})
	r.plane = dataplane.New(dataplane.Options{
		Writer: r.written, Userspace: r.Carrier, Kernel: kernel.New(kernel.Options{}), Mode: service.ModeUserspace,
		Refused: func(n dataplane.Refusal) { r.refusals = append(r.refusals, n) },
	})
	t.Cleanup(func() {
		r.Close()
		cancel()
		<-done
	})
	return r
}

// took returns how the Writer was asked to write since it was called last.
func (r *rig) took() string {
	guards := func(call string) bool { return strings.HasPrefix(call, "guard") }
	defer func() { r.written.Calls = nil }()
	return strings.Join(slices.DeleteFunc(r.written.Calls, guards), ", ")
}

func (r *rig) sync(t *testing.T, ports ...*service.Port) {
	t.Helper()
	var changes []service.Change
	for _, p := range ports {
		changes = append(changes, service.Change{Name: p.Name, Port: p})
	}
	if err := r.plane.Sync(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

// target is where a frontend leads, as text.
func (r *rig) target(frontend string) string {
	f := service.Frontend{Addr: netip.MustParseAddrPort(frontend), Protocol: inet.TCP}
	switch x := r.written.Portals[f].Target.(type) {
	case portal.Redirect:
		if x.Inside {
			return "inside"
		}
		return "redirect"
	case portal.Reject:
		return "reject"
	case portal.Drop:
		return "drop"
	case portal.Spread:
		return "spread"
	case nil:
		return "nowhere"
	default:
		return fmt.Sprint(x)
	}
}

func TestLifeOfAPort(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31000, Last: 31009})
	const vip = "10.96.0.10:80"
	step := func(what, want, calls string, p *service.Port) {
		t.Helper()
		r.sync(t, p)
		if got := r.target(vip); got != want {
			t.Errorf("%s: leads %s, want %s", what, got, want)
		}
		if got := r.took(); got != calls {
			t.Errorf("%s: writer was asked to %q, want %q", what, got, calls)
		}
	}
	proxyPort := func() uint16 {
		f := service.Frontend{Addr: netip.MustParseAddrPort(vip), Protocol: inet.TCP}
		lead, _ := r.written.Portals[f].Target.(portal.Redirect)
		return lead.Port
	}
	step("endpoints", "redirect", "update 1", portOf("cart", vip, "10.1.0.1:80"))
	former := proxyPort()
	step("other endpoints touch no portal", "redirect", "", portOf("cart", vip, "10.1.0.1:80", "10.1.0.2:80"))
	step("no endpoints", "reject", "update 1, update 0", portOf("cart", vip))
	if len(r.fronts.byKey) != 0 {
		t.Error("a front without endpoints is still open")
	}
	r.sync(t, portOf("other", "10.96.0.11:80", "10.1.0.1:80"))
	r.took()
	step("endpoints again", "redirect", "update 1", portOf("cart", vip, "10.1.0.1:80"))
	if got := proxyPort(); got != former {
		t.Errorf("the proxy port is %d; the kernel leads flows to %d that are there still", got, former)
	}
	r.sync(t, portOf("other", "10.96.0.11:80"))
	if err := r.plane.Sync(t.Context(), []service.Change{{Name: portOf("cart", vip).Name}}); err != nil ||
		r.target(vip) != "nowhere" || len(r.fronts.byKey) != 0 {
		t.Errorf("gone: %v, leads %s, %d fronts", err, r.target(vip), len(r.fronts.byKey))
	}
	if len(r.written.Ports) != 0 {
		t.Errorf("guarded still: %v", r.written.Ports)
	}
}

// With Local traffic policies portals follow where the endpoints are, and a front lives as long as any leads there.
func TestLocalPolicies(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31090, Last: 31099})
	const vip, node = "10.96.0.10:80", "0.0.0.0:31091"
	step := func(what, wantVIP, wantNode string, fronts int, change func(p *service.Port)) {
		t.Helper()
		p := portOf("cart", vip, "10.1.0.1:80", "10.1.0.2:80")
		p.InternalLocal, p.ExternalLocal = true, true
		change(p)
		r.sync(t, p)
		if got := r.target(vip); got != wantVIP {
			t.Errorf("%s: the ClusterIP leads %s, want %s", what, got, wantVIP)
		}
		if got := r.target(node); got != wantNode {
			t.Errorf("%s: the NodePort leads %s, want %s", what, got, wantNode)
		}
		if len(r.fronts.byKey) != fronts {
			t.Errorf("%s: %d fronts, want %d", what, len(r.fronts.byKey), fronts)
		}
	}
	nodePort := func(p *service.Port) { expose(p, node, service.NodePort) }
	step("elsewhere", "drop", "inside", 1, nodePort)
	step("here", "redirect", "redirect", 1, func(p *service.Port) { nodePort(p); p.Endpoints[1].Local = true })
	step("elsewhere again", "drop", "inside", 1, nodePort)
	step("without the NodePort", "drop", "nowhere", 0, func(*service.Port) {})
	step("policies of the cluster", "redirect", "redirect", 1,
		func(p *service.Port) { nodePort(p); p.InternalLocal, p.ExternalLocal = false, false })
	step("nobody", "reject", "reject", 0, func(p *service.Port) { nodePort(p); p.Endpoints = nil })
}

func TestBothFamilies(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31010, Last: 31019})
	p := portOf("cart", "10.96.0.10:80", "10.1.0.1:80")
	expose(p, "[fd00:10:96::a]:80", service.ClusterIP)
	r.sync(t, p)
	if v4, v6 := r.target("10.96.0.10:80"), r.target("[fd00:10:96::a]:80"); v4 != "redirect" || v6 != "reject" {
		t.Errorf("IPv4 with an endpoint leads %s, IPv6 without %s", v4, v6)
	}
}

// A range that is used up refuses the clients of what cannot be served, and nothing else. Once a port is free, what was
// set aside has it.
func TestNoFreePort(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31020, Last: 31020})
	a, b := portOf("a", "10.96.0.1:80", "10.1.0.1:80"), portOf("b", "10.96.0.2:80", "10.1.0.1:80")
	r.sync(t, a, b)
	if len(r.refusals) != 1 || r.refusals[0].Reason != dataplane.ByListener || !errors.Is(r.refusals[0].Err, errNoPort) ||
		!strings.Contains(r.refusals[0].Err.Error(), "serve shop/b:p/tcp") {
		t.Errorf("told of %v", r.refusals)
	}
	if r.target("10.96.0.1:80") != "redirect" || r.target("10.96.0.2:80") != "reject" {
		t.Errorf("a leads %s, b %s", r.target("10.96.0.1:80"), r.target("10.96.0.2:80"))
	}
	if err := r.plane.Sync(t.Context(), []service.Change{{Name: a.Name}}); err != nil {
		t.Fatal(err)
	}
	// the event loops close a's socket in their own time
	for deadline := time.After(20 * time.Second); r.target("10.96.0.2:80") != "redirect"; {
		select {
		case <-r.plane.Due():
			r.sync(t)
		case <-deadline:
			t.Fatalf("with a gone b leads %s", r.target("10.96.0.2:80"))
		}
	}
}

// A port that somebody else holds is passed over.
func TestPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "0.0.0.0:31030")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := newRig(t, inet.PortRange{First: 31030, Last: 31031})
	r.sync(t, portOf("cart", "10.96.0.10:80", "10.1.0.1:80"))
	for _, f := range r.fronts.byKey {
		if f.port != 31031 {
			t.Errorf("proxy port %d", f.port)
		}
	}
}

// A failed update is made good by a resync, fronts that are gone included.
func TestFailedUpdate(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31040, Last: 31049})
	p := portOf("cart", "10.96.0.10:80", "10.1.0.1:80")
	r.sync(t, p)
	r.written.Err = errors.New("xtables lock")
	if err := r.plane.Sync(t.Context(), []service.Change{{Name: p.Name}}); err == nil || len(r.fronts.byKey) != 1 {
		t.Errorf("error %v, %d fronts: a front is closed before its portals are gone", err, len(r.fronts.byKey))
	}
	r.written.Err = nil
	if err := r.plane.Resync(t.Context(), nil); err != nil || len(r.fronts.byKey) != 0 {
		t.Errorf("error %v, %d fronts", err, len(r.fronts.byKey))
	}
}

// Behind one front, a client from outside has the endpoints of this node, and one from inside the cluster's.
func TestScopes(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31100, Last: 31109})
	p := portOf("cart", "10.96.0.10:80", greeter(t))
	p.ExternalLocal = true
	expose(p, "0.0.0.0:31110", service.NodePort)
	hears := func(from string) string {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := dialer.Dial("tcp", "127.0.0.1:31110")
		if errors.Is(err, syscall.ECONNRESET) { // accepted, and reset before dial could look
			return ""
		} else if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		said, _ := io.ReadAll(c)
		return string(said)
	}
	r.sync(t, p)
	if in, out := hears(insider.String()), hears("127.0.0.1"); in != "hello" || out != "" {
		t.Errorf("endpoints elsewhere: from inside %q, from outside %q", in, out)
	}
	local := *p
	local.Endpoints = slices.Clone(p.Endpoints)
	local.Endpoints[0].Local = true
	r.sync(t, &local)
	if in, out := hears(insider.String()), hears("127.0.0.1"); in != "hello" || out != "hello" {
		t.Errorf("an endpoint here: from inside %q, from outside %q", in, out)
	}
}

// NodePorts answer at the loopback address by a listener of their own, which follows the Service.
func TestLoopbackNodePort(t *testing.T) {
	endpoint := greeter(t)
	r := newRig(t, inet.PortRange{First: 31060, Last: 31069})
	p := portOf("cart", "10.96.0.10:80", endpoint)
	expose(p, "0.0.0.0:31070", service.NodePort)
	r.sync(t, p)
	c, err := net.Dial("tcp", "127.0.0.1:31070")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	r.sync(t, portOf("cart", "10.96.0.10:80", endpoint))
	for deadline := time.Now().Add(5 * time.Second); ; {
		c, err := net.Dial("tcp", "127.0.0.1:31070")
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the NodePort still answers after it went")
		}
	}
}

// A NodePort at the loopback address that another program has is served once that has ended, without a change.
func TestLoopbackNodePortIsTaken(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:31080")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, inet.PortRange{First: 31081, Last: 31089})
	p := portOf("cart", "10.96.0.10:80", greeter(t))
	expose(p, "0.0.0.0:31080", service.NodePort)
	r.sync(t, p)
	next, err := r.Sweep(t.Context())
	if wait := time.Until(next); err != nil || wait <= 0 || wait > takenRetry {
		t.Fatalf("the next sweep is in %s, %v", wait, err)
	}
	r.wantLoopbacks(t, 0, 1)
	other.Close()
	key := frontKey{p.Name, inet.IPv4}
	r.loopbacks.retries[r.fronts.get(key)] = time.Now()
	if next, err := r.Sweep(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("the next sweep is at %s, %v", next, err)
	}
	c, err := net.Dial("tcp", "127.0.0.1:31080")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	r.wantLoopbacks(t, 1, 1)
	r.drop(r.fronts.get(key))
	if len(r.loopbacks.retries) > 0 {
		t.Errorf("still tried again: %v", r.loopbacks.retries)
	}
	r.wantLoopbacks(t, 0, 1)
}

// wantLoopbacks checks how many listeners 127.0.0.1 has, and how many attempts failed.
func (r *rig) wantLoopbacks(t *testing.T, open int64, failed uint64) {
	t.Helper()
	if is, not := r.Fronts().LoopbackListeners(inet.IPv4); is != open || not != failed {
		t.Errorf("%d listeners at 127.0.0.1, %d failures, want %d and %d", is, not, open, failed)
	}
}

// A NodePort that passes to another Service in one change is served at the loopback address by that one at once.
func TestLoopbackNodePortChangesHands(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31191, Last: 31199})
	left, right := portOf("left", "10.96.0.10:80", greeter(t)), portOf("right", "10.96.0.11:80", greeter(t))
	for _, p := range []*service.Port{left, right} {
		expose(p, "0.0.0.0:31190", service.NodePort)
	}
	r.sync(t, left)
	changes := []service.Change{{Name: right.Name, Port: right}, {Name: left.Name}}
	if err := r.plane.Sync(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if next, err := r.Sweep(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("the next sweep is at %s, %v", next, err)
	}
	if at := netip.MustParseAddrPort("127.0.0.1:31190"); !r.fronts.get(frontKey{right.Name, inet.IPv4}).loopback[at] {
		t.Error("it is not served")
	}
}

// A listener that no portal redirects to any more closes in time, without a change or an audit.
func TestLingeringEndsByItself(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31170, Last: 31179})
	store := service.NewStore()
	in := func(mode service.Mode) *service.Port {
		p := portOf("cart", "10.96.0.10:80", "10.1.0.1:80")
		p.Mode = mode
		return p
	}
	set := func(p *service.Port) {
		store.Set(service.Name{Namespace: p.Name.Namespace, Name: p.Name.Name}, []*service.Port{p})
	}
	log, _ := test.NewNullLogger()
	syncs := make(chan proxy.Sync, 10)
	loop := &proxy.Loop{Store: store, Dataplane: r.plane, Sweeper: r.plane, Log: log, AuditPeriod: time.Hour}
	loop.Watcher.Synced = func(s proxy.Sync) { syncs <- s }
	ctx, cancel := context.WithCancel(t.Context())
	done, synced := make(chan struct{}), make(chan struct{})
	close(synced)
	set(in(service.ModeUserspace))
	go func() {
		defer close(done)
		loop.Run(ctx, synced)
	}()
	defer func() {
		cancel()
		<-done
	}()
	<-syncs
	answers := func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:31170")
		if err != nil {
			return errors.Is(err, syscall.ECONNRESET)
		}
		return c.Close() == nil
	}
	set(in(service.ModeKernel))
	<-syncs
	flipped := time.Now()
	for answers() {
		if time.Since(flipped) > 20*time.Second {
			t.Fatal("the listener outlives its time")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(flipped); took < linger/2 {
		t.Errorf("the listener closed after %s", took)
	}
}

// A Service that passes to the kernel keeps its listener until what was on its way has arrived; the NodePort at the
// loopback address stays, and back again nothing was lost.
func TestLingers(t *testing.T) {
	endpoint := greeter(t)
	r := newRig(t, inet.PortRange{First: 31130, Last: 31139})
	const vip = "10.96.0.10:80"
	in := func(mode service.Mode) *service.Port {
		p := portOf("cart", vip, endpoint)
		expose(p, "0.0.0.0:31140", service.NodePort)
		p.Mode = mode
		return p
	}
	key := frontKey{in(0).Name, inet.IPv4}
	answers := func(port uint16) bool { // by a reset, since no portal led there
		c, err := net.Dial("tcp", netip.AddrPortFrom(insider, port).String())
		if err != nil {
			return errors.Is(err, syscall.ECONNRESET)
		}
		return c.Close() == nil
	}
	loopbackAnswers := func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:31140")
		if err != nil {
			return false
		}
		defer c.Close()
		said, _ := io.ReadAll(c)
		return string(said) == "hello"
	}
	r.sync(t, in(service.ModeUserspace))
	port := r.fronts.get(key).port
	for round := range 3 {
		r.sync(t, in(service.ModeKernel))
		if r.target(vip) != "spread" || !answers(port) || !loopbackAnswers() {
			t.Fatalf("round %d: leads %s, the listener answers %t, the loopback address %t", round, r.target(vip), answers(port),
				loopbackAnswers())
		}
		r.sync(t, in(service.ModeUserspace))
		if now := r.fronts.get(key).port; r.target(vip) != "redirect" || now != port {
			t.Fatalf("round %d, and back: leads %s, proxy port %d, was %d", round, r.target(vip), now, port)
		}
	}
	r.sync(t, in(service.ModeKernel))
	for deadline := time.Now().Add(5 * time.Second); answers(port); time.Sleep(10 * time.Millisecond) {
		if _, err := r.plane.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the listener outlives its time")
		}
	}
	if r.fronts.get(key).port != 0 || !loopbackAnswers() {
		t.Errorf("proxy port %d, the loopback address answers %t", r.fronts.get(key).port, loopbackAnswers())
	}
	gone := in(service.ModeKernel)
	gone.Exposures = gone.Exposures[:1]
	r.sync(t, gone)
	if len(r.fronts.byKey) != 0 {
		t.Errorf("without the NodePort there are %d fronts", len(r.fronts.byKey))
	}
}
