package netsh

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/netshtest"
	"github.com/portald/portald/portal/service"
)

// rig is a Writer with listeners on a simulated host: an interface for addresses, and one of the node.
type rig struct {
	*testing.T
	*Writer
	host    *netshtest.Memory
	sim     *netshtest.Netsh
	open    *listeners
	reports []string          // all
	failing map[string]string // portals, and why
	logged  []string
	reads   int // of the host's addresses
	dir     string
	carried map[netip.Addr]struct{} // by open connections
}

const (
	deviceIndex = 7
	nodeIndex   = 4
)

// inTime runs a test of a rig whose clock runs as fast as the test.
func inTime(t *testing.T, test func(*rig)) {
	t.Helper()
	dir := t.TempDir() // outside, since its removal is
	synctest.Test(t, func(t *testing.T) { test(newRig(t, dir)) })
}

func newRig(t *testing.T, dir string) *rig {
	r := &rig{T: t, host: &netshtest.Memory{}, dir: filepath.Join(dir, "netsh")}
	r.host.Plug("Loopback Pseudo-Interface 1", 1, "127.0.0.1/8", "::1/128")
	r.host.Plug("Ethernet", nodeIndex, "192.168.1.10/24", "fd01::10/64", "fe80::1/64")
	r.host.Plug(DefaultInterface, deviceIndex, "172.22.0.1/16")
	r.sim = &netshtest.Netsh{Host: r.host, PerCall: 80 * time.Millisecond, PerLine: 2 * time.Millisecond}
	r.restart()
	return r
}

// restart makes a new Writer after the old one was killed, whose sockets the system closes.
func (r *rig) restart(edit ...func(*Options)) {
	r.Helper()
	if r.open != nil {
		for s := range r.open.sockets {
			r.host.Release(s)
		}
	}
	r.open = &listeners{host: r.host, sockets: map[netshtest.Socket]service.PortName{}}
	r.failing = map[string]string{}
	o := Options{
		Listeners: r.open, State: r.dir, Run: r.run, Interfaces: r.interfaces, Failed: r.report,
		Carried: func() map[netip.Addr]struct{} { return r.carried },
		Log:     func(format string, args ...any) { r.logged = append(r.logged, fmt.Sprintf(format, args...)) },
	}
	for _, e := range edit {
		e(&o)
	}
	w, err := New(o)
	if err != nil {
		r.Fatal(err)
	}
	r.Writer = w
}

func (r *rig) run(ctx context.Context, args ...string) (Result, error) {
	said, err := r.sim.Exec(ctx, args...)
	return Result{string(said.Output), said.Code}, err
}

func (r *rig) interfaces() (out []Interface, err error) {
	r.reads++
	all, err := r.host.Interfaces()
	states := map[netshtest.State]AddressState{
		netshtest.Preferred: Usable, netshtest.Tentative: Tentative, netshtest.Duplicate: Duplicate,
	}
	for _, i := range all {
		x := Interface{Name: i.Name, Index: i.Index, LUID: luidOf(i.Index)}
		for _, a := range i.Addresses {
			x.Addresses = append(x.Addresses, Address{a.Prefix, states[a.State]})
		}
		out = append(out, x)
	}
	return out, err
}

// luidOf is the LUID of a simulated interface.
func luidOf(index int) uint64 { return 1<<48 + uint64(index) }

func (r *rig) report(p portal.Portal, err error) {
	key := p.Frontend.String() + " " + p.Owner.Label()
	r.reports = append(r.reports, fmt.Sprintf("%s: %v", key, err))
	delete(r.failing, key)
	if err != nil {
		r.failing[key] = err.Error()
	}
}

// listeners bind sockets of the simulated host.
type listeners struct {
	host    *netshtest.Memory
	sockets map[netshtest.Socket]service.PortName
	listens int // how often Listen was called
}

func socketOf(owner service.PortName, at netip.AddrPort) netshtest.Socket {
	return netshtest.Socket{Protocol: owner.Protocol.String(), Addr: at}
}

func (l *listeners) Listen(owner service.PortName, at netip.AddrPort) error {
	l.listens++
	s := socketOf(owner, at)
	if l.sockets[s] == owner {
		return nil
	}
	if err := l.host.Bind(s); err != nil {
		return fmt.Errorf("listen at %s: %w", at, err)
	}
	l.sockets[s] = owner
	return nil
}

func (l *listeners) Unlisten(owner service.PortName, at netip.AddrPort) {
	s := socketOf(owner, at)
	if l.sockets[s] == owner {
		delete(l.sockets, s)
		l.host.Release(s)
	}
}

// served returns who is reached where, in order.
func (r *rig) served() (out []string) {
	for s, owner := range r.open.sockets {
		if r.host.Reach(s) {
			out = append(out, fmt.Sprintf("%s/%s %s", s.Addr, s.Protocol, owner.Label()))
		}
	}
	slices.Sort(out)
	return out
}

// added returns the addresses of the device but its own, in order.
func (r *rig) added() (out []string) {
	all, _ := r.host.Interfaces()
	for _, i := range all {
		for _, a := range i.Addresses {
			if i.Index == deviceIndex && a.Prefix.String() != "172.22.0.1/16" {
				out = append(out, a.Prefix.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

func (r *rig) wantAdded(want ...string) {
	r.Helper()
	if got := r.added(); !slices.Equal(got, want) {
		r.Errorf("addresses %q, want %q", got, want)
	}
}

func (r *rig) wantServed(want ...string) {
	r.Helper()
	if got := r.served(); !slices.Equal(got, want) {
		r.Errorf("served\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantFailing compares which portals fail; each want is the portal, and a part of the error.
func (r *rig) wantFailing(want ...[2]string) {
	r.Helper()
	for _, w := range want {
		if why, ok := r.failing[w[0]]; !ok || !strings.Contains(why, w[1]) {
			r.Errorf("%s fails with %q, want %q", w[0], why, w[1])
		}
	}
	if len(r.failing) != len(want) {
		r.Errorf("%v fail, want %d", slices.Sorted(maps.Keys(r.failing)), len(want))
	}
}

func (r *rig) replace(portals ...portal.Portal) {
	r.Helper()
	if err := r.Replace(r.Context(), portals); err != nil {
		r.Fatal(err)
	}
}

// update has these portals, and none at the frontends of gone.
func (r *rig) update(portals []portal.Portal, gone ...portal.Portal) {
	r.Helper()
	var changes []portal.Change
	for _, p := range gone {
		changes = append(changes, portal.Change{Frontend: p.Frontend})
	}
	for _, p := range portals {
		changes = append(changes, portal.Change{Frontend: p.Frontend, Portal: &p})
	}
	if err := r.Update(r.Context(), changes); err != nil {
		r.Fatal(err)
	}
}

// pass lets time pass, with each Sweep when it is due, as the loop does.
func (r *rig) pass(d time.Duration) {
	r.Helper()
	for end := time.Now().Add(d); ; {
		next, err := r.Sweep(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		if !next.After(time.Now()) {
			r.Fatalf("a Sweep is due at once again")
		}
		time.Sleep(time.Until(next))
	}
}

// calls counts processes of netsh.
func (r *rig) calls() int { return len(r.sim.Calls()) }

// at returns a portal that redirects: "10.96.0.10:80 shop/cart", with /udp behind the port for UDP.
func redirect(text string, kind service.Kind) portal.Portal {
	where, owner, _ := strings.Cut(text, " ")
	namespace, name, _ := strings.Cut(owner, "/")
	proto := inet.TCP
	if at, udp := strings.CutSuffix(where, "/udp"); udp {
		where, proto = at, inet.UDP
	}
	return portal.Portal{
		Frontend: service.Frontend{Addr: netip.MustParseAddrPort(where), Protocol: proto}, Kind: kind,
		Owner: service.PortName{Namespace: namespace, Name: name, Protocol: proto}, Target: portal.Redirect{},
	}
}

func clusterIP(text string) portal.Portal { return redirect(text, service.ClusterIP) }
func nodePort(text string) portal.Portal  { return redirect(text, service.NodePort) }

func with(p portal.Portal, to portal.Target) portal.Portal {
	p.Target = to
	return p
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// takeAway removes an address behind the Writer's back.
func (r *rig) takeAway(index int, addr string) {
	r.Helper()
	if err := r.host.Remove(index, netip.MustParseAddr(addr)); err != nil {
		r.Fatalf("%s: %v", addr, err)
	}
}
