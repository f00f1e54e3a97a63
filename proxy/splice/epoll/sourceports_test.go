package epoll

import (
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// Every port has its turn before any has another, and those with listeners are left out for a while.
func TestSourcePorts(t *testing.T) {
	for _, r := range [][2]uint16{{11000, 29999}, {11000, 11000}, {11000, 11001}, {20000, 20006}, {1, 65535}} {
		p := newSourcePorts(splice.SourcePorts{Range: inet.PortRange{First: r[0], Last: r[1]}})
		for round := range 2 {
			seen := map[uint16]bool{}
			for range p.size {
				seen[p.next(0)] = true
			}
			if len(seen) != int(p.size) || seen[0] {
				t.Errorf("%v, round %d: %d ports", r, round, len(seen))
			}
		}
	}
	p := newSourcePorts(splice.SourcePorts{Range: inet.PortRange{First: 20000, Last: 20099},
		Reserved: []inet.PortRange{{First: 20090, Last: 20094}, {First: 20099, Last: 20099}}})
	p.next(time.Second)
	for port := uint16(20000); port < 20050; port++ {
		p.busy(port)
	}
	for range 200 {
		if got := p.next(2 * time.Second); got < 20050 || got >= 20090 && got <= 20094 || got == 20099 {
			t.Fatalf("%d is given away", got)
		}
	}
	for port := uint16(20050); port < 20100; port++ {
		p.busy(port)
	}
	if got := p.next(3 * time.Second); got != 0 {
		t.Errorf("%d is given away, and all are busy", got)
	}
	if got := p.next(time.Minute); got == 0 {
		t.Error("nothing is given away a minute later")
	}
	if got := newSourcePorts(splice.SourcePorts{}).next(0); got != 0 {
		t.Errorf("%d without a range", got)
	}
}
