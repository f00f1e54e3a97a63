package dataplane

import (
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Standing is what became of a service port.
type Standing struct {
	Port    *service.Port   // as it was applied last
	Mode    service.Mode    // by which it is carried
	Claims  []portal.Portal // its portals; another Service may hold the frontends of some
	Holders map[service.Frontend]service.PortName

	Reason Reason    // why it is set aside; empty: it is not
	Err    error     // of the try that was refused
	Next   time.Time // when it is tried again; zero: when it changes
}

// Standing returns that of a service port; false: nothing of it was applied.
func (d *Dataplane) Standing(name service.PortName) (Standing, bool) {
	p := d.ports[name]
	if p == nil {
		return Standing{}, false
	}
	s := Standing{Port: p, Mode: p.Mode.Or(d.opts.Mode), Holders: map[service.Frontend]service.PortName{}}
	_, s.Claims = d.table.Claims(name)
	for _, x := range p.Exposures {
		if held := d.table.Held(x.Frontend); held != nil {
			s.Holders[x.Frontend] = held.Owner
		}
	}
	if held := d.aside.ports[name]; held != nil {
		s.Reason, s.Err, s.Next = held.reason, held.err, held.next
	}
	return s, true
}
