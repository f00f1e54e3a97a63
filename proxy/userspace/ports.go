package userspace

import (
	"errors"
	"fmt"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// frontKey is a service port in one address family.
type frontKey struct {
	name   service.PortName
	family service.IPFamily
}

// PortRange is a range of local ports, both ends included.
type PortRange struct{ First, Last uint16 }

// DefaultPortRange lies clear of the NodePort range (30000-32767), of Linux's own range for outgoing connections
// (32768-60999), and of the ports that Kubernetes' own programs use (up to 10259).
func DefaultPortRange() PortRange { return PortRange{11000, 29999} }

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// Size is how many ports the range has.
func (r PortRange) Size() int { return int(r.Last) - int(r.First) + 1 }

// errNoPort is the error of a range in which every port is taken.
var errNoPort = errors.New("no free proxy port")

// restTime is how long a port that was given back is not handed out again, if there are others: a flow that the kernel
// still translates to it does not meet another service there. The kernel forgets flows that are over, and silent ones of
// UDP, after two minutes.
const restTime = 3 * time.Minute

// proxyPorts hands out the ports of a range, the lowest first: so they have few gaps, and few rules guard them. A port at
// which somebody else listens is none of them.
type proxyPorts struct {
	within  PortRange
	lanes   map[service.Protocol]*lane
	changed map[portal.ProxyPort]bool // open or closed since that was asked for
	now     func() time.Time
}

// lane is the ports of one protocol.
type lane struct {
	taken   map[uint16]struct{} // those that rest among them
	lowest  int                 // below are none that are free, as far as is known
	resting []rest              // the oldest first
}

// rest is a port that was given back.
type rest struct {
	port  uint16
	until time.Time
}

func newProxyPorts(within PortRange) *proxyPorts {
	p := &proxyPorts{within: within, lanes: map[service.Protocol]*lane{}, changed: map[portal.ProxyPort]bool{}, now: time.Now}
	for _, protocol := range []service.Protocol{service.TCP, service.UDP} {
		p.lanes[protocol] = &lane{taken: map[uint16]struct{}{}, lowest: int(within.First)}
	}
	return p
}

// take hands a port to use until one is found that use accepts: retry tells that the port is not to be had.
func (p *proxyPorts) take(of frontKey, use func(port uint16) (retry bool, err error)) (uint16, error) {
	l := p.lanes[of.name.Protocol]
	l.wake(p.now())
	for port := range l.candidates(p.within) {
		retry, err := use(port)
		if retry {
			continue
		}
		if err == nil {
			l.taken[port] = struct{}{}
			p.changed[of.proxyPort(port)] = true
		}
		return port, err
	}
	return 0, fmt.Errorf("%w: %d in use in the range %s", errNoPort, len(l.taken), p.within)
}

// give takes a port back at which nobody listens any more.
func (p *proxyPorts) give(of frontKey, port uint16) {
	l := p.lanes[of.name.Protocol]
	l.resting = append(l.resting, rest{port, p.now().Add(restTime)})
	p.changed[of.proxyPort(port)] = false
}

// changes are those since the last call.
func (p *proxyPorts) changes() map[portal.ProxyPort]bool {
	out := p.changed
	p.changed = map[portal.ProxyPort]bool{}
	return out
}

func (k frontKey) proxyPort(port uint16) portal.ProxyPort {
	return portal.ProxyPort{Family: k.family, Protocol: k.name.Protocol, Port: port}
}

// wake has the ports that rested long enough be handed out again.
func (l *lane) wake(now time.Time) {
	for len(l.resting) > 0 && !now.Before(l.resting[0].until) {
		l.rouse()
	}
}

// rouse wakes the port that rested longest.
func (l *lane) rouse() (port uint16) {
	port, l.resting = l.resting[0].port, l.resting[1:]
	delete(l.taken, port)
	l.lowest = min(l.lowest, int(port))
	return port
}

// candidates are the ports to try: from the lowest one up, then those below that others had, and at last those at rest.
func (l *lane) candidates(within PortRange) func(func(uint16) bool) {
	return func(try func(uint16) bool) {
		from := l.lowest
		for ; l.lowest <= int(within.Last); l.lowest++ {
			if _, taken := l.taken[uint16(l.lowest)]; !taken && !try(uint16(l.lowest)) {
				return
			}
		}
		for port := int(within.First); port < from; port++ {
			if _, taken := l.taken[uint16(port)]; !taken && !try(uint16(port)) {
				return
			}
		}
		for len(l.resting) > 0 {
			if !try(l.rouse()) {
				return
			}
		}
	}
}
