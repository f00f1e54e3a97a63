package changes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/portal/service"
)

// mostEndpoints is how many endpoints that changed at once are told one by one.
const mostEndpoints = 16

// Of returns what changed of a service port: old is nil when it is new, and new when it is gone. It costs O(its
// endpoints).
func Of(old, new *service.Port, at time.Time) []Change {
	switch {
	case old == nil && new == nil:
		return nil
	case old == nil:
		return []Change{{Time: at, Kind: ServiceAdded, Service: new.Name, New: endpoints(len(new.Endpoints))}}
	case new == nil:
		return []Change{{Time: at, Kind: ServiceRemoved, Service: old.Name, Old: endpoints(len(old.Endpoints))}}
	}
	d := &diff{Change{Time: at, Service: new.Name}, nil}
	d.properties(old, new)
	d.endpoints(old.Endpoints, new.Endpoints)
	return d.all
}

func endpoints(n int) string {
	if n == 1 {
		return "1 endpoint"
	}
	return fmt.Sprintf("%d endpoints", n)
}

// diff collects the changes of one service port.
type diff struct {
	like Change
	all  []Change
}

func (d *diff) add(kind Kind, edit func(*Change)) {
	c := d.like
	c.Kind = kind
	edit(&c)
	d.all = append(d.all, c)
}

// properties compares all but endpoints. What annotations change beside the mode is told by who reads them.
func (d *diff) properties(old, new *service.Port) {
	why := debugging(old, new, d.like.Time)
	if old.Mode != new.Mode || why != "" {
		d.add(ModeChanged, func(c *Change) { c.What, c.Old, c.New = why, mode(old.Mode), mode(new.Mode) })
	}
	if !slices.Equal(old.Exposures, new.Exposures) {
		d.changed("addresses", missing(old.Exposures, new.Exposures), missing(new.Exposures, old.Exposures))
	}
	if !slices.Equal(old.SourceRanges, new.SourceRanges) {
		d.changed("loadBalancerSourceRanges", missing(old.SourceRanges, new.SourceRanges),
			missing(new.SourceRanges, old.SourceRanges))
	}
	if old.Affinity != new.Affinity {
		d.changed("sessionAffinity", affinity(old), affinity(new))
	}
	if old.InternalLocal != new.InternalLocal {
		d.changed("internalTrafficPolicy", policy(old.InternalLocal), policy(new.InternalLocal))
	}
	if old.ExternalLocal != new.ExternalLocal {
		d.changed("externalTrafficPolicy", policy(old.ExternalLocal), policy(new.ExternalLocal))
	}
	if old.HealthCheckPort != new.HealthCheckPort {
		d.changed("healthCheckNodePort", fmt.Sprint(old.HealthCheckPort), fmt.Sprint(new.HealthCheckPort))
	}
}

func (d *diff) changed(what, was, is string) {
	d.add(ServiceChanged, func(c *Change) { c.What, c.Old, c.New = what, was, is })
}

// mostListed bounds the elements of a list that are told: a Service may have thousands.
const mostListed = 8

// missing lists the elements that another list does not have.
func missing[T comparable](all, from []T) string {
	has := make(map[T]struct{}, len(from))
	for _, one := range from {
		has[one] = struct{}{}
	}
	var texts []string
	more := 0
	for _, one := range all {
		if _, ok := has[one]; ok {
			continue
		}
		if len(texts) == mostListed {
			more++
			continue
		}
		texts = append(texts, text(one))
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

func text(one any) string {
	if x, ok := one.(service.Exposure); ok {
		return x.Kind.String() + " " + x.Frontend.String()
	}
	return fmt.Sprint(one)
}

func affinity(p *service.Port) string {
	if p.Affinity == 0 {
		return "None"
	}
	return fmt.Sprintf("ClientIP for %s", p.Affinity)
}

func mode(m service.Mode) string {
	if m == service.ModeDefault {
		return "the default"
	}
	return m.String()
}

// debugging says that the debugging of a service port has begun or is over; empty: neither has.
func debugging(old, new *service.Port, at time.Time) string {
	switch was, is := old.DebugUntil, new.DebugUntil; {
	case was == nil && is != nil:
		return "debugged until " + is.UTC().Format(time.RFC3339)
	case was != nil && is == nil && at.Before(*was):
		return "debugging was ended before its time"
	case was != nil && is == nil:
		return "debugging is over: its time has expired"
	}
	return ""
}

func policy(local bool) string {
	if local {
		return "Local"
	}
	return "Cluster"
}

// endpoints compares two lists that are sorted by address.
func (d *diff) endpoints(old, new []service.Endpoint) {
	before := len(d.all)
	added, removed, others := 0, 0, 0
	for i, j := 0, 0; i < len(old) || j < len(new); {
		switch {
		case j == len(new) || i < len(old) && old[i].Addr.Compare(new[j].Addr) < 0:
			d.endpoint(EndpointRemoved, &old[i], state(&old[i]), "")
			i, removed = i+1, removed+1
		case i == len(old) || new[j].Addr.Compare(old[i].Addr) < 0:
			d.endpoint(EndpointAdded, &new[j], "", state(&new[j]))
			j, added = j+1, added+1
		default:
			if was, is := state(&old[i]), state(&new[j]); was != is {
				d.endpoint(kindOf(&new[j]), &new[j], was, is)
				others++
			}
			i, j = i+1, j+1
		}
	}
	if n := added + removed + others; n > mostEndpoints {
		d.all = slices.Delete(d.all, before, len(d.all))
		d.add(EndpointsChanged, func(c *Change) {
			c.What = fmt.Sprintf("%s changed at once: %d added, %d removed, %d other; %d now", endpoints(n), added, removed,
				others, len(new))
		})
	}
}

func (d *diff) endpoint(kind Kind, e *service.Endpoint, was, is string) {
	d.add(kind, func(c *Change) { c.Endpoint, c.Pod, c.Old, c.New = e.Addr, e.Pod, was, is })
}

// state is the condition of an endpoint, as people call it.
func state(e *service.Endpoint) string {
	switch {
	case e.Terminating && e.Serving:
		return "terminating and serving"
	case e.Terminating:
		return "terminating"
	case e.Ready:
		return "ready"
	}
	return "not ready"
}

func kindOf(e *service.Endpoint) Kind {
	switch {
	case e.Terminating:
		return EndpointTerminating
	case e.Ready:
		return EndpointReady
	}
	return EndpointNotReady
}
