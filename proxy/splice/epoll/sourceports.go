package epoll

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// sourcePorts is the range of local ports that sockets to endpoints are bound to. The kernel gives a port away again that
// was used towards an endpoint within the last minute (TIME_WAIT) if it is asked for that very port, and has not to search
// then; left to choose it does neither. Its own range for outgoing connections is the rest of the host's: ports that are
// asked for there it gives to nobody else. Safe for concurrent use.
type sourcePorts struct {
	first, size uint32
	stride      uint32
	turn        atomic.Uint32
	spared      [1 << 16 / 32]uint32        // never to be used; a bit for each port
	taken       [1 << 16 / 32]atomic.Uint32 // those, and listened at as of the last look
	forget      atomic.Int64                // when all of taken but spared is tried again, on the core's clock
}

const (
	portTries    = 4  // of ports in use towards an endpoint, before the kernel chooses: each costs a socket
	portBinds    = 4  // to ports with listeners
	portsSkipped = 64 // ports with listeners in a row, then there are few others
)

// listenersTime is how long a port with a listener is left alone.
const listenersTime = 10 * time.Second

// newSourcePorts has no ports where the span is zero.
func newSourcePorts(within splice.PortSpan, spare []splice.PortSpan) *sourcePorts {
	p := &sourcePorts{first: uint32(within.First)}
	if within.Last == 0 || within.Last < within.First {
		return p
	}
	for _, s := range spare {
		for port := uint32(s.First); port <= uint32(s.Last); port++ {
			p.spared[port/32] |= 1 << (port % 32)
		}
	}
	p.size = uint32(within.Last) - uint32(within.First) + 1
	for p.stride = p.size*5/8 | 1; gcd(p.stride, p.size) != 1; p.stride += 2 {
	}
	p.turn.Store(rand.Uint32N(p.size))
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
		port := p.first + uint32(uint64(p.turn.Add(1))*uint64(p.stride)%uint64(p.size))
		if p.taken[port/32].Load()&(1<<(port%32)) == 0 {
			return uint16(port)
		}
	}
	return 0
}

// busy has a port be left alone for some time.
func (p *sourcePorts) busy(port uint16) { p.taken[port/32].Or(1 << (port % 32)) }
