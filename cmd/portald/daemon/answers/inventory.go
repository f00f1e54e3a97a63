package answers

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// Inventory shows service ports and endpoints as this node serves them. It reads the state of the parts at each call:
// none of them waits for the host, so that it answers also while rules cannot be written.
type Inventory struct {
	Store     *service.Store
	Mode      service.Mode // of service ports that set none
	PortalAt  func(service.Frontend) *portal.Portal
	Listeners *userspace.Carrier
	Totals    func(service.PortName) metrics.Totals
	OpenBytes func() map[service.PortName]splice.Bytes
	Problems  *Problems
	Log       logrus.FieldLogger
}

// wanted returns the service ports whose names are wanted, in the order of names.
func (i *Inventory) wanted(name func(string) bool) []*service.Port {
	ports := slices.DeleteFunc(i.Store.Ports(), func(p *service.Port) bool { return !name(p.Name.Label()) })
	slices.SortFunc(ports, func(a, b *service.Port) int { return a.Name.Compare(b.Name) })
	return ports
}

// services implements adminsocket.Daemon.Services.
func (i *Inventory) services(ctx context.Context, name func(string) bool) iter.Seq[*adminsocket.Service] {
	return func(yield func(*adminsocket.Service) bool) {
		open := map[service.PortName]int{}
		i.Listeners.Fronts().Active(func(name service.PortName, live int) { open[name] = live })
		bytes := i.OpenBytes()
		for _, p := range i.wanted(name) {
			s := i.service(p, open[p.Name])
			s.BytesUp += uint64(bytes[p.Name].FromClient)
			s.BytesDown += uint64(bytes[p.Name].FromEndpoint)
			if ctx.Err() != nil || !yield(s) {
				return
			}
		}
	}
}

func (i *Inventory) service(p *service.Port, open int) *adminsocket.Service {
	totals := i.Totals(p.Name)
	s := &adminsocket.Service{
		Name: p.Name.Label(), Protocol: p.Name.Protocol.String(), Mode: p.Mode.Or(i.Mode).String(), ModeFrom: "annotation",
		Frontends: []adminsocket.Frontend{}, Endpoints: len(p.Endpoints), Usable: i.usable(p), Open: open,
		Ended: totals.Ended, Failed: totals.Failed, BytesUp: totals.FromClient, BytesDown: totals.FromEndpoint,
		Problem: i.problem(p),
	}
	if p.Mode == service.ModeDefault {
		s.ModeFrom = "default"
	}
	byKind := func(a, b service.Exposure) int { return cmp.Compare(a.Kind, b.Kind) }
	for _, x := range slices.SortedStableFunc(slices.Values(p.Exposures), byKind) {
		s.Frontends = append(s.Frontends, i.frontend(p.Name, x))
	}
	return s
}

// problem says why a service port is not served as its Service says, empty if it is.
func (i *Inventory) problem(p *service.Port) string {
	if mode := p.Mode.Or(i.Mode).Or(service.ModeUserspace); !mode.Carries(p.Name.Protocol) {
		return fmt.Sprintf("mode: %s does not carry %s, clients are refused; annotate the Service with portald.io/mode: %s",
			mode, p.Name.Protocol, service.ModeKernel)
	}
	return i.Problems.of(p)
}

func (i *Inventory) usable(p *service.Port) (n int) {
	drained := i.drained(p)
	for at, use := range p.Uses() {
		if use == service.Used && !slices.Contains(drained, p.Endpoints[at].Addr) {
			n++
		}
	}
	return n
}

// frontend shows a frontend that a service port claims.
func (i *Inventory) frontend(owner service.PortName, x service.Exposure) adminsocket.Frontend {
	f := adminsocket.Frontend{Address: x.Frontend.Addr, Kind: x.Kind.String()}
	current := i.PortalAt(x.Frontend)
	switch {
	case current == nil:
		f.Target = "none"
		return f
	case current.Owner != owner:
		f.Holder = current.Owner.Label()
	}
	switch to := current.Target.(type) {
	case portal.Redirect:
		f.Target, f.Port = "redirect", to.Port
	case portal.Reject:
		f.Target = "reject"
	case portal.Drop:
		f.Target = "drop"
	default:
		f.Target = "spread"
	}
	return f
}

// endpoints implements adminsocket.Daemon.Endpoints.
func (i *Inventory) endpoints(ctx context.Context, name func(string) bool) iter.Seq[*adminsocket.Endpoint] {
	return func(yield func(*adminsocket.Endpoint) bool) {
		for _, p := range i.wanted(name) {
			for _, e := range i.endpointsOf(p) {
				if ctx.Err() != nil || !yield(e) {
					return
				}
			}
		}
	}
}

// endpointsOf returns the endpoints of a service port, and then those that are no longer its own and still have
// connections.
func (i *Inventory) endpointsOf(p *service.Port) (out []*adminsocket.Endpoint) {
	known := map[netip.AddrPort]balance.Statistics{}
	for _, s := range i.Listeners.Endpoints().Statistics(p.Name, 0.5, 0.99) {
		known[s.Address] = s
	}
	drained := i.drained(p)
	show := func(e service.Endpoint, state string) {
		if state == string(service.Used) && known[e.Addr].Ejected.LeftOut && p.Mode.Or(i.Mode) != service.ModeKernel {
			state = adminsocket.Ejected
		}
		one := &adminsocket.Endpoint{
			Service: p.Name.Label(), Protocol: p.Name.Protocol.String(), Address: e.Addr, Pod: e.Pod, Node: e.Node,
			Zone: e.Zone, State: state,
		}
		addStatistics(one, known[e.Addr])
		delete(known, e.Addr)
		out = append(out, one)
	}
	for at, use := range p.Uses() {
		e, state := p.Endpoints[at], string(use)
		if use == service.Used && slices.Contains(drained, e.Addr) {
			state = adminsocket.Drained
		}
		show(e, state)
	}
	for _, at := range slices.SortedFunc(maps.Keys(known), netip.AddrPort.Compare) {
		if known[at].Open > 0 {
			show(service.Endpoint{Addr: at}, adminsocket.Removed)
		}
	}
	return out
}

// drained returns the endpoints of a service port that get no new connections. The kernel drains none.
func (i *Inventory) drained(p *service.Port) []netip.AddrPort {
	if p.Mode.Or(i.Mode) == service.ModeKernel {
		return nil
	}
	return i.Listeners.Endpoints().Drained(p.Name)
}

// ejected tells why an endpoint of a service port is left out for a while; empty: it is not. The kernel ejects none.
func (i *Inventory) ejected(p *service.Port) func(netip.AddrPort) string {
	out := map[netip.AddrPort]string{}
	if i.Listeners.Endpoints().Ejections() > 0 && p.Mode.Or(i.Mode) != service.ModeKernel {
		for _, s := range i.Listeners.Endpoints().Statistics(p.Name) {
			if s.Ejected.LeftOut {
				out[s.Address] = fmt.Sprintf("ejected, since it failed connections (%s: %v); one tries it again in %v",
					s.Ejected.For, s.LastError, time.Until(s.Ejected.Until).Round(100*time.Millisecond))
			}
		}
	}
	return func(at netip.AddrPort) string { return out[at] }
}

func addStatistics(e *adminsocket.Endpoint, s balance.Statistics) {
	e.Open, e.Dials, e.Failures = s.Open, s.Dials, s.Failures
	at := func(times []time.Duration, i int) *float64 {
		if times == nil {
			return nil
		}
		ms := milliseconds(times[i])
		return &ms
	}
	e.DialP50ms, e.DialP99ms = at(s.Dial, 0), at(s.Dial, 1)
	e.FirstByteP50ms, e.FirstByteP99ms = at(s.FirstByte, 0), at(s.FirstByte, 1)
	if s.Ejected.Is {
		e.EjectedFor, e.EjectedUntil = s.Ejected.For.String(), &s.Ejected.Until
	}
	if s.LastError != nil {
		e.LastError, e.LastErrorAt = s.LastError.Error(), &s.LastFailure
	}
}
