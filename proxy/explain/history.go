package explain

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
)

// history is what changed of a service port, the newest at the end.
type history struct {
	of  service.PortName
	all []changes.Change
}

// causeWithin is how long before the first failure a change may have caused it.
const causeWithin = time.Minute

// changed returns when the service port itself changed last; zero: it is not known.
func (h history) changed() (at time.Time) {
	for _, c := range h.all {
		switch c.Kind {
		case changes.ServiceAdded, changes.ServiceChanged, changes.ModeChanged:
			if c.Service == h.of || c.Service.Service() == h.of.Service() && c.Service.Protocol == 0 { // of all its ports
				at = c.Time
			}
		}
	}
	return at
}

// serving returns since when an endpoint is what it is; zero: it is not known.
func (h history) serving(endpoint netip.AddrPort) (since time.Time) {
	for _, c := range h.all {
		serves := c.Kind == changes.EndpointAdded || c.Kind == changes.EndpointReady
		if serves && c.Endpoint == endpoint && c.Service == h.of {
			since = c.Time
		}
	}
	return since
}

// before returns the last change before a moment, if it was so short before that it may be the cause.
func (h history) before(moment time.Time) (last changes.Change, found bool) {
	for _, c := range h.all {
		if !c.Kind.Effect() && !c.Time.After(moment) && moment.Sub(c.Time) <= causeWithin {
			last, found = c, true
		}
	}
	return last, found
}

// onset says when failures began, and what had changed just before.
func (h history) onset(began time.Time) string {
	if began.IsZero() {
		return ""
	}
	text := " The first was at " + began.UTC().Format("15:04:05") + " UTC"
	if c, ok := h.before(began); ok {
		text += fmt.Sprintf(", %s after a change (%s)", roughly(began.Sub(c.Time)), c.Text())
	}
	return text + "."
}
