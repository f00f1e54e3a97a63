// Package portal says where the flows to frontends go. A Portal is a frontend and its Target; the Table decides which
// Service holds a contested frontend; a Writer puts portals into one facility of the host. It does not know how traffic
// is carried behind a target.
//
// The packages below are Writers. Who uses one follows its contract: first a Replace (or an Adopt of an earlier run's
// rules), then Updates at a cost that does not grow with the number of portals; after an error Replace again.
//
//	changes, conflicts := table.Set(port.Name, port.Created, portals) // conflicts: the frontend is another Service's
//	if err := w.Update(ctx, changes); err != nil {
//		err = w.Replace(ctx, table.Portals())
//	}
package portal

import "github.com/portald/portald/portal/service"

// Target is where the flows of a portal go: Redirect, Spread, Reject or Drop. Targets are comparable.
type Target interface{ target() }

// Redirect sends flows to the daemon's listener at this local port. With Inside it does so only for clients inside the
// cluster, which are this node and the pods, and drops the flows of others.
type Redirect struct {
	Port   uint16
	Inside bool
}

// Reject answers with "connection refused".
type Reject struct{}

// Drop answers nothing: with a Local traffic policy and no endpoint here, the client may try another node.
type Drop struct{}

func (Redirect) target() {}
func (Reject) target()   {}
func (Drop) target()     {}

// Portal is a frontend and its target. It is comparable.
type Portal struct {
	Frontend service.Frontend
	Kind     service.Kind
	Owner    service.PortName
	Target   Target
}

// Change is the newest state of one frontend; Portal is nil when it has no portal any more. Was is what it had before,
// nil for none; Writers do not go by it.
type Change struct {
	Frontend service.Frontend
	Portal   *Portal
	Was      *Portal
}
