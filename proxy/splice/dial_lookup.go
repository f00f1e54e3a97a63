package splice

import (
	"time"

	"github.com/portald/portald/portal/service"
)

// question is what the host is asked about a client.
type question uint8

const (
	noQuestion question = iota
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
		d.asked = isLocal
		return step{kind: stepAsk, ask: func() bool { return o.IsLocal(client, iface) }}
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

// answered goes on with the answer to the question of the last stepAsk.
func (d *dialler) answered(e *entry, yes bool, now time.Duration) step {
	q, removed := d.asked, d.removed
	d.asked, d.removed = noQuestion, false
	switch {
	case q == isLocal:
		return d.locate(e, yes, now)
	case removed:
		return d.failed(e, errRemoved, Enough, now)
	default:
		return d.dialStep(e, yes)
	}
}

// waitsForHost tells whether a question has no answer yet.
func (d *dialler) waitsForHost() bool { return d.asked != noQuestion }
