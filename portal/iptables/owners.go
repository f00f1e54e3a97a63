package iptables

import (
	"maps"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// owners are the service ports with chains of their own, and which of them changed.
type owners struct {
	portals map[service.PortName]map[service.Frontend]portal.Portal // never empty
	dirty   map[service.PortName]struct{}
}

func newOwners() *owners {
	return &owners{map[service.PortName]map[service.Frontend]portal.Portal{}, map[service.PortName]struct{}{}}
}

func (o *owners) put(p portal.Portal) {
	o.dirty[p.Owner] = struct{}{}
	if o.portals[p.Owner] == nil {
		o.portals[p.Owner] = map[service.Frontend]portal.Portal{}
	}
	o.portals[p.Owner][p.Frontend] = p
}

func (o *owners) remove(p portal.Portal) {
	o.dirty[p.Owner] = struct{}{}
	delete(o.portals[p.Owner], p.Frontend)
	if len(o.portals[p.Owner]) == 0 {
		delete(o.portals, p.Owner)
	}
}

// takeDirty returns the owners that changed since the last call.
func (o *owners) takeDirty() []service.PortName {
	names := slices.Collect(maps.Keys(o.dirty))
	o.dirty = map[service.PortName]struct{}{}
	return names
}

func (o *owners) touchAll() {
	for name := range o.portals {
		o.dirty[name] = struct{}{}
	}
}

// of are the portals of an owner, in order.
func (o *owners) of(name service.PortName) []portal.Portal {
	return slices.SortedFunc(maps.Values(o.portals[name]), func(a, b portal.Portal) int {
		return a.Frontend.Compare(b.Frontend)
	})
}
