package dataplane

import (
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// PortStatus says how a service port is served, for who explains it.
type PortStatus struct {
	Port    *service.Port   // as it was applied last
	Mode    service.Mode    // by which it is carried
	Claims  []portal.Portal // its portals; another Service may own the frontends of some
	Holders map[service.Frontend]service.PortName

	Reason Reason    // why it is in quarantine; empty: it is not
	Err    error     // of the try that was refused
	Next   time.Time // when it is tried again; zero: when it changes
}

// Status returns the state of a service port; false: nothing of it was applied.
func (d *Dataplane) Status(name service.PortName) (PortStatus, bool) {
	p := d.ports[name]
	if p == nil {
		return PortStatus{}, false
	}
	s := PortStatus{Port: p, Mode: p.Mode.Or(d.carriers.mode), Holders: map[service.Frontend]service.PortName{}}
	_, s.Claims = d.table.Claims(name)
	for _, x := range p.Exposures {
		if current := d.table.PortalAt(x.Frontend); current != nil {
			s.Holders[x.Frontend] = current.Owner
		}
	}
	if q := d.quarantine.ports[name]; q != nil {
		s.Reason, s.Err, s.Next = q.reason, q.err, q.next
	}
	return s, true
}
