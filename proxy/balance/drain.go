package balance

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
)

// ErrLast is the error of Drain for an endpoint without which clients would have none.
var ErrLast = errors.New("it is the last endpoint that clients have")

// forgetAfter is how long an endpoint that is drained may be missing among the endpoints of its service port before it
// is forgotten: while slices are rewritten one is missing for a moment, and one whose pod is gone does not come back.
const forgetAfter = 10 * time.Minute

// drain is an endpoint of a service port that gets no new leases.
type drain struct {
	pod    string // that had the address: another that has it later is not drained
	forced bool
	gone   time.Time // since when it is missing among the endpoints; zero: it is not
}

// Drain has an endpoint get no new leases; open ones go on. It stays drained when it leaves the list and comes back,
// but not once another pod has its address. If no other endpoint is left in a list, the drained ones of that are used
// all the same, but for those that are forced; to drain the last one takes force.
func (all *Endpoints) Drain(name service.PortName, e service.Endpoint, force bool) error {
	p := all.acquire(name)
	defer all.release(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !force && p.isLast(e.Addr) {
		return ErrLast
	}
	if p.drains == nil {
		p.drains = map[netip.AddrPort]*drain{}
	}
	if p.drains[e.Addr] == nil {
		all.drains.Add(1)
	}
	p.drains[e.Addr] = &drain{pod: e.Pod, forced: force}
	p.relist()
	return nil
}

// Undrain ends that. False: it is not drained.
func (all *Endpoints) Undrain(name service.PortName, at netip.AddrPort) bool {
	return len(all.undrain(name, func(addr netip.AddrPort, _ *drain) bool { return addr == at })) > 0
}

// UndrainAll ends it for all endpoints of a service port, and returns which were drained.
func (all *Endpoints) UndrainAll(name service.PortName) []netip.AddrPort {
	return all.undrain(name, func(netip.AddrPort, *drain) bool { return true })
}

// Renew is called when the endpoints of a service port have changed, all of which are listed. It returns those that are
// not drained any more: another pod has the address, or it has long been missing. It costs nothing where none is.
func (all *Endpoints) Renew(name service.PortName, listed []service.Endpoint) []netip.AddrPort {
	now := time.Now()
	return all.undrain(name, func(at netip.AddrPort, d *drain) bool {
		i := slices.IndexFunc(listed, func(e service.Endpoint) bool { return e.Addr == at })
		switch {
		case i >= 0:
			d.gone = time.Time{}
			return listed[i].Pod != d.pod
		case d.gone.IsZero():
			d.gone = now
		}
		return now.Sub(d.gone) > forgetAfter
	})
}

// Drained returns the drained endpoints of a service port, but for those that are used all the same.
func (all *Endpoints) Drained(name service.PortName) []netip.AddrPort {
	if all.drains.Load() == 0 {
		return nil
	}
	p := all.acquire(name)
	defer all.release(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	isUsed := func(at netip.AddrPort, _ *drain) bool {
		return slices.ContainsFunc(p.balancers, func(b *Balancer) bool { return b.rotation.has(at) })
	}
	left := maps.Clone(p.drains)
	maps.DeleteFunc(left, isUsed)
	return slices.Collect(maps.Keys(left))
}

// Drains returns how many endpoints are drained, of all service ports.
func (all *Endpoints) Drains() int { return int(all.drains.Load()) }

// undrain ends it for the endpoints that are due.
func (all *Endpoints) undrain(name service.PortName, due func(netip.AddrPort, *drain) bool) (ended []netip.AddrPort) {
	if all.drains.Load() == 0 {
		return nil
	}
	p := all.acquire(name)
	defer all.release(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, d := range p.drains {
		if due(at, d) {
			delete(p.drains, at)
			ended = append(ended, at)
			if e := p.endpoints[at]; e != nil {
				e.dropUnused()
			}
		}
	}
	all.drains.Add(-int64(len(ended)))
	p.relist()
	return ended
}

// isLast tells whether some balancer of the service port has only this endpoint to pick.
func (p *port) isLast(at netip.AddrPort) bool {
	for _, b := range p.balancers {
		if all := b.rotation.members; len(all) == 1 && all[0].addrPort() == at {
			return true
		}
	}
	return false
}

// relist has the balancers of the service port leave out what is drained now.
func (p *port) relist() {
	for _, b := range p.balancers {
		b.list(b.listed())
	}
}

// split parts a sorted list into the endpoints to pick and those that are left out.
func (p *port) split(listed []netip.AddrPort) (picked, left []netip.AddrPort) {
	if len(p.drains) == 0 {
		return listed, nil
	}
	part := func(isLeft func(*drain) bool) {
		picked, left = nil, nil
		for _, at := range listed {
			if d, is := p.drains[at]; is && isLeft(d) {
				left = append(left, at)
			} else {
				picked = append(picked, at)
			}
		}
	}
	if part(func(*drain) bool { return true }); len(picked) == 0 {
		part(func(d *drain) bool { return d.forced })
	}
	return picked, left
}

// Drain is an endpoint that is drained.
type Drain struct {
	Name   service.PortName
	Addr   netip.AddrPort
	Forced bool
}

// AllDrained lists the endpoints that are drained, of all service ports. It costs nothing where none is.
func (all *Endpoints) AllDrained() (list []Drain) {
	if all.drains.Load() == 0 {
		return nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for name, p := range all.ports {
		p.mu.Lock()
		for at, d := range p.drains {
			list = append(list, Drain{name, at, d.forced})
		}
		p.mu.Unlock()
	}
	return list
}
