package changes

import (
	"net/netip"
	"time"

	"github.com/portald/portald/portal/service"
)

// Standing tells since when endpoints are as they are, as far as the changes that a Log keeps tell.
type Standing struct {
	ports map[service.PortName]*standingPort
}

// standingPort is what is known of the endpoints of one service port.
type standingPort struct {
	added     time.Time // of the service port, with endpoints that are not told one by one; zero: before all changes
	endpoints map[netip.AddrPort]*standingEndpoint
}

// standingEndpoint has the last changes of each sort; zero: none is known.
type standingEndpoint struct{ condition, drained, undrained, ejected, back time.Time }

// Standing returns what is known now. It costs O(the changes that are kept).
func (l *Log) Standing() Standing {
	s := Standing{map[service.PortName]*standingPort{}}
	for _, c := range l.Last(len(l.ring), nil) {
		s.take(&c)
	}
	return s
}

func (s Standing) take(c *Change) {
	switch c.Kind {
	case ServiceAdded:
		s.ports[c.Service] = newStandingPort(c.Time)
	case ServiceRemoved, EndpointsChanged: // of the latter nobody knows which
		delete(s.ports, c.Service)
	case LeftOut:
		for name := range s.ports {
			if name.Service() == c.Service.Service() {
				delete(s.ports, name)
			}
		}
	case EndpointAdded, EndpointRemoved, EndpointReady, EndpointNotReady, EndpointTerminating:
		s.of(c).condition = c.Time
	case EndpointDrained:
		s.of(c).drained = c.Time
	case EndpointUndrained:
		s.of(c).undrained = c.Time
	case EndpointEjected:
		s.of(c).ejected = c.Time
	case EndpointBack:
		s.of(c).back = c.Time
	}
}

func newStandingPort(added time.Time) *standingPort {
	return &standingPort{added, map[netip.AddrPort]*standingEndpoint{}}
}

// of returns what is known of the endpoint of a change.
func (s Standing) of(c *Change) *standingEndpoint {
	p := s.ports[c.Service]
	if p == nil {
		p = newStandingPort(time.Time{})
		s.ports[c.Service] = p
	}
	e := p.endpoints[c.Endpoint]
	if e == nil {
		e = &standingEndpoint{condition: p.added}
		p.endpoints[c.Endpoint] = e
	}
	return e
}

// Since returns since when an endpoint is ejected, drained, or neither and in the condition that its slice says; zero:
// it is not known.
func (s Standing) Since(name service.PortName, at netip.AddrPort, ejected, drained bool) time.Time {
	p := s.ports[name]
	if p == nil {
		return time.Time{}
	}
	e := p.endpoints[at]
	switch {
	case e == nil && (ejected || drained):
		return time.Time{}
	case e == nil:
		return p.added
	case ejected && e.ejected.After(e.back):
		return e.ejected
	case drained && e.drained.After(e.undrained):
		return e.drained
	case ejected || drained:
		return time.Time{}
	}
	since := e.condition
	for _, end := range []time.Time{e.undrained, e.back} {
		if end.After(since) {
			since = end
		}
	}
	return since
}
