package answers

import (
	"context"
	"net/netip"

	"github.com/portald/portald/platform/reach"
	"github.com/portald/portald/proxy/explain"
)

// path looks up the way of the daemon's packets to an endpoint.
func (x *Explainer) path(to netip.Addr) reach.Path {
	return reach.PathTo(to, x.facts.Core.Options().Mark)
}

// probe probes endpoints of the service ports that were asked for, and nothing else. The turn of a report allows one
// at a time.
func (x *Explainer) probe(ctx context.Context, q explain.Query, subjects []explain.Subject) {
	targets := explain.Targets(q, subjects)
	explain.SetProbes(subjects, targets, reach.Probe(ctx, targets, x.facts.Core.Options().Mark))
}
