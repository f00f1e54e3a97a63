package splice

import (
	"time"

	"github.com/portald/portald/portal/service"
)

// hostLookup names a lookup at the host about a client.
type hostLookup uint8

const (
	noLookup hostLookup = iota
	isLocal             // Options.IsLocal
	returns             // Options.Returns
)

// start determines which endpoints are for an admitted client, and begins to dial.
func (d *dialler) start(e *entry, iface int, now time.Duration) step {
	var depends bool
	if e.scope, depends = e.plan.scope(e.portal); !depends {
		return d.next(e, now)
	}
	o, client := &e.front.core.opts, e.clientAddr()
	inside, known := o.IsLocalKnown(client, iface)
	if !known {
		d.lookup = isLocal
		return step{kind: stepLookup, lookup: func() bool { return o.IsLocal(client, iface) }}
	}
	return d.locate(e, inside, now)
}

// locate begins to dial once it is known whether the client is inside the cluster.
func (d *dialler) locate(e *entry, inside bool, now time.Duration) step {
	if inside {
		e.scope = service.ClusterScope
	}
	return d.next(e, now)
}

// lookedUp goes on with the result of the last stepLookup.
func (d *dialler) lookedUp(e *entry, yes bool, now time.Duration) step {
	q, removed := d.lookup, d.removed
	d.lookup, d.removed = noLookup, false
	switch {
	case q == isLocal:
		return d.locate(e, yes, now)
	case removed:
		return d.failed(e, errRemoved, Enough, now)
	default:
		return d.dialStep(e, yes)
	}
}

// lookupPending tells whether a lookup has no result yet.
func (d *dialler) lookupPending() bool { return d.lookup != noLookup }
