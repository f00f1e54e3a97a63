package answers

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/metrics"
)

// endpoints implements adminsocket.Daemon.Endpoints.
func (i *Inventory) endpoints(ctx context.Context, name func(string) bool) iter.Seq[*adminsocket.Endpoint] {
	return func(yield func(*adminsocket.Endpoint) bool) {
		kernel, reached := i.OpenFlows.count(ctx), sync.OnceValue(i.reached)
		standing := i.History.Standing()
		for _, p := range i.wanted(name) {
			for _, e := range i.endpointsOf(p, kernel, reached) {
				at := standing.Since(p.Name, e.Address, e.State == adminsocket.Ejected, e.State == adminsocket.Drained)
				if !at.IsZero() {
					at = at.UTC()
					e.Since = &at
				}
				if ctx.Err() != nil || !yield(e) {
					return
				}
			}
		}
	}
}

// reached returns the endpoints of open connections, as they were when these reached them.
func (i *Inventory) reached() map[netip.AddrPort]service.Endpoint {
	out := map[netip.AddrPort]service.Endpoint{}
	for live := range i.Open() {
		out[live.Endpoint.Addr] = live.Endpoint
	}
	return out
}

// endpointsOf returns the endpoints of a service port, and then those that are no longer its own and still have
// connections.
func (i *Inventory) endpointsOf(
	p *service.Port, kernel openCounts, reached func() map[netip.AddrPort]service.Endpoint,
) (out []*adminsocket.Endpoint) {
	known := map[netip.AddrPort]balance.Statistics{}
	for _, s := range i.Listeners.Endpoints().Statistics(p.Name, 0.5, 0.99) {
		known[s.Address] = s
	}
	tcp := i.EndpointTCP(p.Name)
	flowing, ended := maps.Clone(kernel.of(p.Name).endpoints), i.Ended(p.Name)
	show := func(e service.Endpoint, state string) {
		one := &adminsocket.Endpoint{
			Service: p.Name.Label(), Protocol: p.Name.Protocol.String(), Address: e.Addr, Pod: e.Pod, Node: e.Node,
			Zone: e.Zone, State: state,
		}
		addStatistics(one, known[e.Addr])
		addTCP(one, tcp[e.Addr])
		switch open := flowing[e.Addr].n; {
		case i.isKernel(p):
			addRecorded(one, &ended)
			if *one.Open += open; kernel == nil {
				one.Open = nil
			}
		default:
			*one.Open += open
		}
		delete(known, e.Addr)
		delete(flowing, e.Addr)
		out = append(out, one)
	}
	for at, state := range i.states(p, i.Listeners.Endpoints().Ejected(p.Name)) {
		show(p.Endpoints[at], state)
	}
	for _, at := range slices.SortedFunc(maps.Keys(known), netip.AddrPort.Compare) {
		if known[at].Open > 0 {
			e := cmp.Or(reached()[at], flowing[at].Endpoint)
			e.Addr = at // also of one that has ended since
			show(e, adminsocket.Removed)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(flowing), netip.AddrPort.Compare) {
		show(flowing[at].Endpoint, adminsocket.Removed)
	}
	return out
}

// states returns the states of the endpoints of a service port, in their order.
func (i *Inventory) states(p *service.Port, ejected map[netip.AddrPort]balance.EjectionStatus) (out []string) {
	drained := i.drained(p)
	for at, use := range p.Uses() {
		addr, state := p.Endpoints[at].Addr, string(use)
		switch {
		case use != service.Used:
		case slices.Contains(drained, addr):
			state = adminsocket.Drained
		case ejected[addr].LeftOut && !i.isKernel(p):
			state = adminsocket.Ejected
		}
		out = append(out, state)
	}
	return out
}

// endpointStates returns the states of the endpoints that a service port has now, by address.
func (i *Inventory) endpointStates(name service.PortName) map[netip.AddrPort]string {
	p := i.Store.Port(name)
	if p == nil {
		return nil
	}
	out := make(map[netip.AddrPort]string, len(p.Endpoints))
	for at, state := range i.states(p, i.Listeners.Endpoints().Ejected(name)) {
		out[p.Endpoints[at].Addr] = state
	}
	return out
}

func addStatistics(e *adminsocket.Endpoint, s balance.Statistics) {
	e.Open, e.Dials, e.Failures = &s.Open, &s.Dials, &s.Failures
	at := func(times []time.Duration, i int) *float64 {
		if times == nil {
			return nil
		}
		ms := milliseconds(times[i])
		return &ms
	}
	e.DialP50ms, e.DialP99ms = at(s.Dial, 0), at(s.Dial, 1)
	e.FirstByteP50ms, e.FirstByteP99ms = at(s.FirstByte, 0), at(s.FirstByte, 1)
	e.DialTimes, e.FirstByteTimes = histogram(s.DialCounts), histogram(s.FirstByteCounts)
	if s.Ejected.Is {
		e.EjectedFor, e.EjectedUntil = s.Ejected.For.String(), &s.Ejected.Until
	}
	if s.LastError != nil {
		e.LastError, e.LastErrorAt = s.LastError.Error(), &s.LastFailure
	}
}

// timeBounds are those of the times of endpoints, in milliseconds.
var timeBounds = func() (bounds []float64) {
	for _, b := range balance.TimeBounds() {
		bounds = append(bounds, milliseconds(b))
	}
	return bounds
}()

func histogram(counts []uint64) *adminsocket.Histogram {
	if counts == nil {
		return nil
	}
	return &adminsocket.Histogram{BoundsMS: timeBounds, Counts: counts}
}

func addTCP(e *adminsocket.Endpoint, t metrics.TCPTotals) {
	if t.Connections > 0 {
		rtt := milliseconds(t.RTT) / float64(t.Connections)
		e.RTTms, e.Retransmits, e.OutOfOrder = &rtt, &t.Retransmits, &t.OutOfOrder
	}
}

// addRecorded puts what is known of connections that the kernel has carried in the place of what is known of this
// process's own: once the kernel carries the service port, that is no more than some that are left.
func addRecorded(e *adminsocket.Endpoint, ended *flows.Ended) {
	was := ended.Endpoints[e.Address]
	e.Dials, e.Failures, e.LastError, e.LastErrorAt = nil, nil, "", nil
	switch ended.Wants {
	case service.RecordsAll:
		e.Dials, e.Failures = &was.Ended, &was.Failures
	case service.RecordsFailures:
		e.Failures = &was.Failures
	default:
		return
	}
	if was.LastError != "" {
		e.LastError, e.LastErrorAt = was.LastError, &was.LastFailure
	}
}
