package balance

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Unreached is an endpoint that is ejected since dials of it fail.
type Unreached struct {
	Name service.PortName
	Addr netip.AddrPort
}

// idleRechecks is after how many calls of Unreached since the last pick of a service port it lists its endpoints no
// longer.
const idleRechecks = 10

// Unreached lists the endpoints that are ejected since TCP dials of them fail, of service ports that clients use. It
// costs nothing where none is.
func (all *Endpoints) Unreached() (list []Unreached) {
	for _, p := range all.ejecting.all() {
		if p.name.Protocol != inet.TCP {
			continue
		}
		p.mu.Lock()
		if p.rechecks++; p.rechecks <= idleRechecks {
			for at, e := range p.ejected {
				if e.lists > 0 && e.health.why != Silent {
					list = append(list, Unreached{p.name, at})
				}
			}
		}
		p.mu.Unlock()
	}
	return list
}

// Reached notes that such an endpoint takes connections again: the next connection tries it.
func (all *Endpoints) Reached(u Unreached) {
	p := all.find(u.Name)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.ejected[u.Addr]
	if e == nil || e.health.why == Silent || e.health.probed {
		return
	}
	e.health.until = time.Now()
	for _, b := range p.balancers {
		b.rotation.probeAt = time.Time{}
	}
}
