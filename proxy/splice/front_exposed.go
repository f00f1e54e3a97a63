package splice

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// exposed finds a front by the address that clients dial. It is for TCP connections that reach a listener of another
// front: several service ports may share one, or an old rule leads there, such as a rule of a daemon that was killed,
// whose proxy ports are given out again. Safe for concurrent use.
type exposed struct {
	mu     sync.RWMutex
	fronts map[service.Frontend][]*Front // guarded by mu
}

// change notes the exposures of a front, and removes its earlier ones.
func (e *exposed) change(f *Front, before, next []service.Exposure) {
	if slices.Equal(before, next) { // as at each change of endpoints
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range before {
		left := slices.DeleteFunc(e.fronts[x.Frontend], func(other *Front) bool { return other == f })
		if len(left) == 0 {
			delete(e.fronts, x.Frontend)
		} else {
			e.fronts[x.Frontend] = left
		}
	}
	for _, x := range next {
		e.fronts[x.Frontend] = append(e.fronts[x.Frontend], f)
	}
}

// by returns the front that exposes the address that a client dialled; nil: none does. Of several that claim it, rules
// lead to the one that portal.Table has as its holder: that of the oldest Service.
func (e *exposed) by(dst netip.AddrPort, protocol inet.Protocol) *Front {
	nodePort := netip.AddrPortFrom(inet.FamilyOf(dst.Addr()).Unspecified(), dst.Port())
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, at := range []netip.AddrPort{dst, nodePort} {
		if all := e.fronts[service.Frontend{Addr: at, Protocol: protocol}]; len(all) > 0 {
			return slices.MinFunc(all, byAge)
		}
	}
	return nil
}

func byAge(a, b *Front) int {
	return cmp.Or(a.plan.Load().Port.Created.Compare(b.plan.Load().Port.Created), a.name.Compare(b.name))
}
