package flows

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// keep is how long the endpoints and service ports that are gone are remembered: the kernel reports a connection
// minutes after it was closed.
const keep = 10 * time.Minute

// maxRemembered bounds what is remembered, whatever tenants create and delete: endpoints, and service ports. Each takes
// some 150 bytes.
const maxRemembered = 1 << 16

// maxFormer bounds the endpoints of one service port that are remembered: each change of it looks at them.
const maxFormer = 1024

// index finds service ports by what clients dial: those that the kernel carries, and those that it has carried. Safe
// for concurrent use.
type index struct {
	mode service.Mode // of service ports that set none
	own  func(netip.Addr) bool

	mu       sync.RWMutex
	policy   service.Policy // of service ports that set none
	ports    map[service.PortName]*known
	claims   map[service.Frontend][]*known // never empty; the holder first
	expiring []*known                      // those that are gone, in the order in which they went
	gone     int                           // how much is remembered of what is gone
	swept    time.Time                     // when former endpoints were last looked through
	carried  [service.RecordsOff + 1]int   // how many the kernel carries, by what their Services set
}

// known is a state of a service port.
type known struct {
	*service.Port
	gone   atomic.Pointer[time.Time] // nil: it is served
	former map[netip.AddrPort]former // endpoints that it no longer has
	ended  *ended                    // is that of the state before it
}

func (k *known) isGone() bool { return k.gone.Load() != nil }

type former struct {
	service.Endpoint
	until time.Time
}

func newIndex(mode service.Mode, policy service.Policy, own func(netip.Addr) bool) *index {
	return &index{mode: mode, own: own, policy: policy,
		ports: map[service.PortName]*known{}, claims: map[service.Frontend][]*known{}}
}

// find returns the service port that owns a frontend, nil if there is none. The caller holds mu.
func (x *index) find(to netip.AddrPort, protocol inet.Protocol) (*known, service.Kind) {
	at := service.Frontend{Addr: to, Protocol: protocol}
	claims := x.claims[at]
	if claims == nil && x.own(to.Addr()) {
		unspecified := netip.IPv4Unspecified()
		if to.Addr().Is6() {
			unspecified = netip.IPv6Unspecified()
		}
		at.Addr = netip.AddrPortFrom(unspecified, to.Port())
		claims = x.claims[at]
	}
	if claims == nil {
		return nil, 0
	}
	return claims[0], claims[0].kindOf(at)
}

func (k *known) kindOf(f service.Frontend) service.Kind {
	i, _ := slices.BinarySearchFunc(k.Exposures, f, func(x service.Exposure, f service.Frontend) int {
		return x.Frontend.Compare(f)
	})
	return k.Exposures[min(i, len(k.Exposures)-1)].Kind
}

// endpoint returns the endpoint at an address. False: it has none there, and had none of late.
func (k *known) endpoint(at netip.AddrPort) (service.Endpoint, bool) {
	if e, ok := k.listed(at); ok {
		return e, true
	}
	was, ok := k.former[at]
	return was.Endpoint, ok
}

// listed returns the endpoint at an address in the newest state.
func (k *known) listed(at netip.AddrPort) (service.Endpoint, bool) {
	i, ok := slices.BinarySearchFunc(k.Endpoints, at, func(e service.Endpoint, at netip.AddrPort) int {
		return e.Addr.Compare(at)
	})
	if !ok {
		return service.Endpoint{}, false
	}
	return k.Endpoints[i], true
}

// defaults are the settings of service ports that set none.
func (x *index) defaults() service.Policy {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.policy
}

// empty tells whether the kernel carries nothing, and has not of late.
func (x *index) empty() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.ports) == 0
}

// demand is the most that any service port wants that the kernel carries.
func (x *index) demand() service.Records {
	x.mu.RLock()
	defer x.mu.RUnlock()
	carried := x.carried
	carried[x.policy.KernelRecords] += carried[service.RecordsDefault]
	for _, most := range []service.Records{service.RecordsAll, service.RecordsFailures} {
		if carried[most] > 0 {
			return most
		}
	}
	return service.RecordsOff
}

// tally counts a service port that is served (1) or no longer so (-1).
func (x *index) tally(k *known, n int) {
	if !k.isGone() && k.Mode.Or(x.mode) == service.ModeKernel {
		x.carried[k.Policy.KernelRecords] += n
	}
}

func (x *index) setPolicy(p service.Policy) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.policy = p
}

// replace makes these service ports the ones that are served.
func (x *index) replace(ports []*service.Port, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	served := make(map[service.PortName]struct{}, len(ports))
	for _, p := range ports {
		served[p.Name] = struct{}{}
		x.set(p, now)
	}
	for name, k := range x.ports {
		if _, ok := served[name]; !ok && !k.isGone() {
			x.leave(k, now)
		}
	}
	x.expire(now)
}

// update applies changes.
func (x *index) update(changes []service.Change, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range changes {
		if c.Port != nil {
			x.set(c.Port, now)
		} else if k := x.ports[c.Name]; k != nil && !k.isGone() {
			x.leave(k, now)
		}
	}
	x.expire(now)
}

func (x *index) set(p *service.Port, now time.Time) {
	k := x.ports[p.Name]
	if k != nil && k.Port == p && !k.isGone() || k == nil && p.Mode.Or(x.mode) != service.ModeKernel {
		return
	}
	is := &known{Port: p, ended: &ended{}}
	if k != nil {
		x.tally(k, -1)
		x.drop(k)
		is.former = formerOf(k, p, now, min(maxFormer, maxRemembered-x.gone))
		x.gone += len(is.former)
		is.ended = k.ended
		is.ended.keepOnly(is)
	}
	x.tally(is, 1)
	x.ports[p.Name] = is
	for _, e := range p.Exposures {
		claims := append(x.claims[e.Frontend], is)
		slices.SortStableFunc(claims, before)
		x.claims[e.Frontend] = claims
	}
}

// formerOf are the endpoints of late that a service port no longer has, at most so many.
func formerOf(k *known, now *service.Port, at time.Time, most int) map[netip.AddrPort]former {
	is := known{Port: now}
	var out map[netip.AddrPort]former
	add := func(f former) {
		if _, still := is.listed(f.Addr); still || !at.Before(f.until) || len(out) >= most {
			return
		}
		if out == nil {
			out = map[netip.AddrPort]former{}
		}
		out[f.Addr] = f
	}
	for _, e := range k.Endpoints {
		add(former{e, at.Add(keep)})
	}
	for _, f := range k.former {
		add(f)
	}
	return out
}

// leave remembers a service port that is gone, behind those that are served.
func (x *index) leave(k *known, now time.Time) {
	x.tally(k, -1)
	k.gone.Store(&now)
	x.gone += 1 + len(k.Endpoints)
	x.expiring = append(x.expiring, k)
	for _, e := range k.Exposures {
		slices.SortStableFunc(x.claims[e.Frontend], before)
	}
	for x.gone > maxRemembered && len(x.expiring) > 0 {
		x.drop(x.expiring[0])
	}
}

// expire forgets what has been gone for long.
func (x *index) expire(now time.Time) {
	for len(x.expiring) > 0 && now.Sub(*x.expiring[0].gone.Load()) >= keep {
		x.drop(x.expiring[0])
	}
	if now.Sub(x.swept) < keep {
		return
	}
	x.swept = now
	for _, k := range x.ports {
		before := len(k.former)
		maps.DeleteFunc(k.former, func(_ netip.AddrPort, f former) bool { return !now.Before(f.until) })
		x.gone -= before - len(k.former)
	}
}

// drop forgets a service port and what is remembered of it.
func (x *index) drop(k *known) {
	x.gone -= len(k.former)
	if k.isGone() {
		x.gone -= 1 + len(k.Endpoints)
		x.expiring = slices.DeleteFunc(x.expiring, func(o *known) bool { return o == k })
	}
	delete(x.ports, k.Name)
	for _, e := range k.Exposures {
		claims := slices.DeleteFunc(slices.Clone(x.claims[e.Frontend]), func(o *known) bool { return o == k })
		if len(claims) == 0 {
			delete(x.claims, e.Frontend)
		} else {
			x.claims[e.Frontend] = claims
		}
	}
}

// before orders claims to a frontend: those that are served first, then the older Service as portal.Table has it.
func before(a, b *known) int {
	switch {
	case a.isGone() != b.isGone():
		if b.isGone() {
			return -1
		}
		return 1
	case !a.Created.Equal(b.Created):
		return a.Created.Compare(b.Created)
	}
	return a.Name.Compare(b.Name)
}
