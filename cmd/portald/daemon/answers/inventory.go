package answers

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/record"
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
	// EndpointTCP tells what the kernel told of connections that have ended.
	EndpointTCP func(service.PortName) map[netip.AddrPort]metrics.TCPTotals
	OpenBytes   func() map[service.PortName]splice.Bytes
	// Open lists the open connections of userspace mode. The next one overwrites what was yielded.
	Open      func() iter.Seq[*record.Live]
	OpenFlows *OpenFlows
	// Ended tells what has ended of what the kernel carried.
	Ended func(service.PortName) flows.Ended
	// EachProblem tells what of Services is not served, or has no effect.
	EachProblem func(func(service.Name, translate.Problem))
	Problems    *Problems
	// Refused tells what rules have refused, read now; nil: it is not known.
	Refused func(context.Context) RefusedOf
	// ReceiveBufferFull tells of UDP in userspace mode which datagrams found a receive buffer full; nil: it is not known.
	ReceiveBufferFull func(service.PortName) metrics.Packets
	History           *changes.Log
	Log               logrus.FieldLogger
}

// RefusedOf tells what rules have refused of a service port.
type RefusedOf func(service.PortName) metrics.Packets

// wanted returns the service ports whose names are wanted, in the order of names.
func (i *Inventory) wanted(name func(string) bool) []*service.Port {
	ports := slices.DeleteFunc(i.Store.Ports(), func(p *service.Port) bool { return !name(p.Name.Label()) })
	slices.SortFunc(ports, func(a, b *service.Port) int { return a.Name.Compare(b.Name) })
	return ports
}

// listing has what one list is made of.
type listing struct {
	*Inventory
	userspace map[service.PortName]int // open connections
	bytes     map[service.PortName]splice.Bytes
	kernel    openCounts
	refused   RefusedOf // nil: it is not known
	told      map[service.Name][]translate.Problem
}

// services implements adminsocket.Daemon.Services.
func (i *Inventory) services(ctx context.Context, name func(string) bool) iter.Seq[*adminsocket.Service] {
	return func(yield func(*adminsocket.Service) bool) {
		l := &listing{
			Inventory: i, userspace: map[service.PortName]int{}, bytes: i.OpenBytes(), kernel: i.OpenFlows.count(ctx),
			refused: i.Refused(ctx), told: map[service.Name][]translate.Problem{},
		}
		i.Listeners.Fronts().Active(func(name service.PortName, live int) { l.userspace[name] = live })
		i.EachProblem(func(of service.Name, p translate.Problem) { l.told[of] = append(l.told[of], p) })
		for _, p := range i.wanted(name) {
			if ctx.Err() != nil || !yield(l.service(p)) {
				return
			}
		}
	}
}

func (l *listing) service(p *service.Port) *adminsocket.Service {
	s := &adminsocket.Service{
		Name: p.Name.Label(), Protocol: p.Name.Protocol.String(), Mode: p.Mode.Or(l.Mode).String(),
		ModeFrom: modeFrom(p), DebugUntil: p.DebugUntil,
		Frontends: []adminsocket.Frontend{}, Endpoints: len(p.Endpoints),
	}
	byKind := func(a, b service.Exposure) int { return cmp.Compare(a.Kind, b.Kind) }
	for _, x := range slices.SortedStableFunc(slices.Values(p.Exposures), byKind) {
		s.Frontends = append(s.Frontends, l.frontend(p.Name, x))
	}
	ejected := l.Listeners.Endpoints().Ejected(p.Name)
	now := &standing{inventory: l.Inventory, port: p, states: l.states(p, ejected), told: l.told[p.Name.Service()]}
	for _, state := range now.states {
		if state == string(service.Used) {
			s.Usable++
		}
	}
	if l.isKernel(p) {
		ended := l.Ended(p.Name)
		l.countKernel(s, p.Name, &ended)
		now.failing = failing(nil, &ended)
	} else {
		l.countUserspace(s, p.Name)
		now.failing = failing(ejected, nil)
		if l.ReceiveBufferFull != nil && p.Name.Protocol == inet.UDP {
			datagrams := l.ReceiveBufferFull(p.Name).Packets
			s.ReceiveBufferErrors = &datagrams
		}
	}
	if l.refused != nil {
		packets := l.refused(p.Name).Packets
		s.RefusedPackets = &packets
	}
	if p.Policy.KeepPayload == service.KeepBadlyEnded && p.Name.Protocol == inet.TCP && !l.isKernel(p) {
		s.KeepPayload = p.Policy.KeepPayload.String()
	}
	if s.Problems = now.problems(); len(s.Problems) > 0 {
		s.Problem = s.Problems[0]
	}
	return s
}

// modeFrom tells why a service port has its mode.
func modeFrom(p *service.Port) string {
	switch {
	case p.DebugUntil != nil:
		return "debug"
	case p.Mode == service.ModeDefault:
		return "default"
	}
	return "annotation"
}

// countUserspace fills in what this process has carried of a service port, with what the kernel still carries of it
// since it last did.
func (l *listing) countUserspace(s *adminsocket.Service, name service.PortName) {
	totals, kernel, bytes := l.Totals(name), l.kernel.of(name), l.bytes[name]
	open := l.userspace[name] + kernel.n
	up := totals.FromClient + uint64(bytes.FromClient) + kernel.fromClient
	down := totals.FromEndpoint + uint64(bytes.FromEndpoint) + kernel.fromEndpoint
	s.Open, s.Ended, s.Failed, s.BytesUp, s.BytesDown = &open, &totals.Ended, &totals.Failed, &up, &down
	s.FailedDials, s.Replays, s.FirstByte = &totals.FailedDials, &totals.Replays, histogramOf(totals.FirstByte)
}

// histogramOf is a histogram for the API, nil if nothing was counted.
func histogramOf(c metrics.Counted) *adminsocket.Histogram {
	if c.Counts == nil {
		return nil
	}
	h := &adminsocket.Histogram{Counts: c.Counts}
	for _, bound := range c.Bounds {
		h.BoundsMS = append(h.BoundsMS, milliseconds(bound))
	}
	return h
}

// countKernel fills in what the kernel has carried of a service port, as far as that is known, with what this process
// still carries of it.
func (l *listing) countKernel(s *adminsocket.Service, name service.PortName, ended *flows.Ended) {
	kernel := l.kernel.of(name)
	if l.kernel != nil {
		open := kernel.n
		for _, e := range l.Listeners.Endpoints().Statistics(name) {
			open += e.Open
		}
		s.Open = &open
	}
	if ended.Wants != service.RecordsAll && ended.Wants != service.RecordsFailures {
		return
	}
	totals := l.Totals(name)
	failed := ended.Failed + totals.Failed
	if s.Failed = &failed; ended.Wants != service.RecordsAll || l.kernel == nil {
		return
	}
	all := ended.Ended + totals.Ended
	up := ended.FromClient + kernel.fromClient + totals.FromClient + uint64(l.bytes[name].FromClient)
	down := ended.FromEndpoint + kernel.fromEndpoint + totals.FromEndpoint + uint64(l.bytes[name].FromEndpoint)
	s.Ended, s.BytesUp, s.BytesDown = &all, &up, &down
}

func (i *Inventory) isKernel(p *service.Port) bool { return p.Mode.Or(i.Mode) == service.ModeKernel }

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
				next := "the next connection tries it again"
				if in := time.Until(s.Ejected.Until).Round(100 * time.Millisecond); in > 0 {
					next = fmt.Sprintf("one tries it again in %v", in)
				}
				out[s.Address] = fmt.Sprintf("ejected, since it failed connections (%s: %v); %s", s.Ejected.For, s.LastError,
					next)
			}
		}
	}
	return func(at netip.AddrPort) string { return out[at] }
}
