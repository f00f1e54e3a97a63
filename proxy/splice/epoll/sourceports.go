package epoll

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// sourcePorts is the range of local ports that sockets to endpoints are bound to. The kernel reuses a port that it is
// told to bind even when it was used towards that endpoint within the last minute (TIME_WAIT), and need not search; if
// it chooses the port itself it does neither. Its own range for outgoing connections is left to the rest of the host,
// since ports that are bound there are not available to connect. Safe for concurrent use.
type sourcePorts struct {
	first, size uint32
	stride      uint32
	steps       atomic.Uint32
	spared      [1 << 16 / 32]uint32        // never used; a bit for each port
	taken       [1 << 16 / 32]atomic.Uint32 // those, and those that others listen at
	forget      atomic.Int64                // when those are tried again, on the core's clock
}

const (
	portTries    = 4  // ports in use towards an endpoint before the kernel chooses: each costs a socket
	portBinds    = 4  // binds to ports with listeners
	portsSkipped = 64 // ports with listeners in a row, then there are few others
)

// listenersTime is how long a port with a listener is left alone.
const listenersTime = 10 * time.Second

// newSourcePorts has no ports where the range is zero.
func newSourcePorts(from splice.SourcePorts) *sourcePorts {
	within := from.Range
	p := &sourcePorts{first: uint32(within.First)}
	if within.Last == 0 || within.Last < within.First {
		return p
	}
	for _, s := range from.Reserved {
		for port := uint32(s.First); port <= uint32(s.Last); port++ {
			p.spared[port/32] |= 1 << (port % 32)
		}
	}
	p.size = uint32(within.Last) - uint32(within.First) + 1
	for p.stride = p.size*5/8 | 1; gcd(p.stride, p.size) != 1; p.stride += 2 {
	}
	p.steps.Store(rand.Uint32N(p.size))
	return p
}

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// next is the port that was used the longest time ago, but for those with listeners; 0: there is none. Listeners often
// have ports in a row, so that successive ones lie far apart.
func (p *sourcePorts) next(now time.Duration) uint16 {
	if at := p.forget.Load(); int64(now) >= at && p.forget.CompareAndSwap(at, int64(now+listenersTime)) {
		for i := range p.taken {
			p.taken[i].Store(p.spared[i])
		}
	}
	for range min(p.size, portsSkipped) {
		port := p.first + uint32(uint64(p.steps.Add(1))*uint64(p.stride)%uint64(p.size))
		if p.taken[port/32].Load()&(1<<(port%32)) == 0 {
			return uint16(port)
		}
	}
	return 0
}

// busy leaves a port alone for some time.
func (p *sourcePorts) busy(port uint16) { p.taken[port/32].Or(1 << (port % 32)) }
