package userspace

import (
	"container/list"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// DefaultPortRange lies clear of the NodePort range (30000-32767), of Linux's own range for outgoing connections
// (32768-60999), and of the ports that Kubernetes' own programs use (up to 10259).
func DefaultPortRange() inet.PortRange { return inet.PortRange{First: 11000, Last: 29999} }

// errNoPort is the error of a range in which every port is taken.
var errNoPort = errors.New("no free proxy port")

// When so many ports in a row are other sockets', such as those that a predecessor left to service ports that come
// later, no port is looked for again for a while: service ports share one meanwhile.
const (
	mostForeign = 4096
	scarceFor   = time.Second
)

// coolDown is how long a port that was released is kept for the front that had it, if there are others, so that a flow
// that the kernel still translates to it reaches that service or none. conntrack drops flows that have ended, and
// silent ones of UDP, after two minutes.
const coolDown = 3 * time.Minute

// proxyPorts allocates the ports of a range, the lowest first, so that they have few gaps and few rules guard them. It
// passes over ports at which another process listens.
type proxyPorts struct {
	within  inet.PortRange
	most    int // of those that can share one, so many have a port of their own; 0: all that find one
	pools   map[inet.Protocol]*portPool
	changed map[portal.ProxyPort]bool // opened (true) or closed since the last call of changes
	now     func() time.Time
}

// portPool is the ports of one protocol.
type portPool struct {
	taken   map[uint16]struct{}        // and those that cool down
	lowest  int                        // no port below is known to be free
	cooling *list.List                 // of coolingPort, the oldest first
	former  map[frontKey]*list.Element // the last of these that a front had
	scarce  time.Time                  // until then no port is looked for that is not claimed

	listening  atomic.Int64   // taken, and not cooling; any goroutine may read it
	namespaces map[string]int // of those, how many each has
}

// coolingPort is a port that was released.
type coolingPort struct {
	port  uint16
	of    frontKey
	until time.Time
}

func newProxyPorts(within inet.PortRange) *proxyPorts {
	p := &proxyPorts{
		within: within, pools: map[inet.Protocol]*portPool{}, changed: map[portal.ProxyPort]bool{}, now: time.Now,
	}
	for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
		p.pools[protocol] = &portPool{
			taken: map[uint16]struct{}{}, lowest: int(within.First), cooling: list.New(), former: map[frontKey]*list.Element{},
			namespaces: map[string]int{},
		}
	}
	return p
}

// take calls use with one free port after the other until it does not ask for another (retry): the one that the front
// had last, if it cools down, then the one that is claimed, if it is free and in the range; 0: none is. Fronts that can
// share a port leave some free for that.
func (p *proxyPorts) take(of frontKey, claimed uint16, use func(port uint16) (retry bool, err error)) (uint16, error) {
	pool := p.pools[of.name.Protocol]
	if pool == nil {
		return 0, fmt.Errorf("%w: no listener carries %s", errNoPort, of.name.Protocol)
	}
	pool.reclaim(p.now())
	canShare := p.canShare(of)
	left, knows := p.left(pool, canShare), claimed != 0 || pool.former[of] != nil
	if pool.exhausted(p.within, left) || canShare && !knows && p.now().Before(pool.scarce) {
		return 0, pool.full(p.within)
	}
	if err := pool.share(p.within, of.name.Namespace, left); err != nil && !of.isShared() {
		return 0, err
	}
	foreign := 0
	for port := range pool.candidates(p.within, of, claimed) {
		retry, err := use(port)
		if retry {
			if foreign++; canShare && foreign == mostForeign {
				pool.scarce = p.now().Add(scarceFor)
				break
			}
			continue
		}
		if err == nil {
			pool.taken[port] = struct{}{}
			pool.listening.Add(1)
			pool.namespaces[of.name.Namespace]++
			p.changed[of.proxyPort(port)] = true
		}
		return port, err
	}
	return 0, pool.full(p.within)
}

// left is how many ports there are without a listener, for a front that can share one without those to share.
func (p *proxyPorts) left(pool *portPool, canShare bool) int {
	n := p.within.Size() - int(pool.listening.Load())
	if !canShare {
		return n
	}
	n -= 2 * sharedPorts(p.within) // of both families
	if p.most > 0 {
		n = min(n, p.most-int(pool.listening.Load()))
	}
	return n
}

// exhausted tells whether no port is to be had. If for one front, then for thousands, so that it is told without a try.
func (pool *portPool) exhausted(within inet.PortRange, left int) bool {
	return left <= 0 || len(pool.taken) >= within.Size() && pool.cooling.Len() == 0
}

// namespaceShare is how many times the ports that are free one namespace may have: the bound that quota.Account has.
const namespaceShare = 16

// share is an error if a namespace has as many ports as it may, so that others find some.
func (pool *portPool) share(within inet.PortRange, namespace string, free int) error {
	has := pool.namespaces[namespace]
	if has < namespaceShare*free {
		return nil
	}
	return fmt.Errorf("%w: namespace %s has %d of %d in the range %s (proxyPortRange), and the rest is for others; "+
		"carry Services by the kernel: portald.io/mode: kernel, or mode: nftables", errNoPort, namespace, has,
		within.Size(), within)
}

func (pool *portPool) full(within inet.PortRange) error {
	return fmt.Errorf("%w: %d in use in the range %s (proxyPortRange); carry Services by the kernel: %s", errNoPort,
		len(pool.taken), within, "portald.io/mode: kernel, or mode: nftables")
}

// release returns a port whose listener was closed.
func (p *proxyPorts) release(of frontKey, port uint16) {
	pool := p.pools[of.name.Protocol]
	pool.listening.Add(-1)
	if pool.namespaces[of.name.Namespace]--; pool.namespaces[of.name.Namespace] == 0 {
		delete(pool.namespaces, of.name.Namespace)
	}
	pool.former[of] = pool.cooling.PushBack(coolingPort{port, of, p.now().Add(coolDown)})
	p.changed[of.proxyPort(port)] = false
}

// inUse returns how many ports of a protocol have a listener. Any goroutine may ask.
func (p *proxyPorts) inUse(protocol inet.Protocol) int {
	return int(p.pools[protocol].listening.Load())
}

// changes returns the ports that were opened (true) and closed since the last call.
func (p *proxyPorts) changes() map[portal.ProxyPort]bool {
	out := p.changed
	p.changed = map[portal.ProxyPort]bool{}
	return out
}

func (k frontKey) proxyPort(port uint16) portal.ProxyPort {
	return portal.ProxyPort{Family: k.family, Protocol: k.name.Protocol, Port: port}
}

// reclaim makes the ports free that have cooled down.
func (pool *portPool) reclaim(now time.Time) {
	for e := pool.cooling.Front(); e != nil && !now.Before(e.Value.(coolingPort).until); e = pool.cooling.Front() {
		pool.free(e)
	}
}

// free makes a port free that cools down.
func (pool *portPool) free(e *list.Element) (port uint16) {
	c := pool.cooling.Remove(e).(coolingPort)
	if pool.former[c.of] == e {
		delete(pool.former, c.of)
	}
	delete(pool.taken, c.port)
	pool.lowest = min(pool.lowest, int(c.port))
	return c.port
}

// candidates yields the ports to try: the front's former one, the one that is claimed, from lowest up, then those
// below, and at last those that still cool down for others.
func (pool *portPool) candidates(within inet.PortRange, of frontKey, claimed uint16) func(func(uint16) bool) {
	return func(try func(uint16) bool) {
		if former := pool.former[of]; former != nil && !try(pool.free(former)) {
			return
		}
		if _, taken := pool.taken[claimed]; !taken && within.First <= claimed && claimed <= within.Last && !try(claimed) {
			return
		}
		from := pool.lowest
		for ; pool.lowest <= int(within.Last); pool.lowest++ {
			if _, taken := pool.taken[uint16(pool.lowest)]; !taken && !try(uint16(pool.lowest)) {
				return
			}
		}
		for port := int(within.First); port < from; port++ {
			if _, taken := pool.taken[uint16(port)]; !taken && !try(uint16(port)) {
				return
			}
		}
		for e := pool.cooling.Front(); e != nil; e = pool.cooling.Front() {
			if !try(pool.free(e)) {
				return
			}
		}
	}
}
