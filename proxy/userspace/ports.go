package userspace

import (
	"errors"
	"fmt"

	"github.com/portald/portald/proxy/service"
)

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

// proxyPorts hands out the ports of a range, those given back last of all: a flow that the kernel still translates to
// an old port does not meet another service there.
type proxyPorts struct {
	within PortRange
	next   map[service.Protocol]int
	taken  map[service.Protocol]map[uint16]struct{}
}

func newProxyPorts(within PortRange) *proxyPorts {
	return &proxyPorts{within, map[service.Protocol]int{}, map[service.Protocol]map[uint16]struct{}{service.TCP: {}, service.UDP: {}}}
}

// take hands a port to use until one is found that use accepts: retry tells that the port is not to be had.
func (p *proxyPorts) take(protocol service.Protocol, use func(port uint16) (retry bool, err error)) (uint16, error) {
	taken := p.taken[protocol]
	for range p.within.Size() {
		port := p.within.First + uint16(p.next[protocol])
		p.next[protocol] = (p.next[protocol] + 1) % p.within.Size()
		if _, ok := taken[port]; ok {
			continue
		}
		retry, err := use(port)
		if retry {
			continue
		}
		if err == nil {
			taken[port] = struct{}{}
		}
		return port, err
	}
	return 0, fmt.Errorf("%w: %d in use in the range %s", errNoPort, len(taken), p.within)
}

func (p *proxyPorts) give(protocol service.Protocol, port uint16) { delete(p.taken[protocol], port) }
