package dataplane

import (
	"slices"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// plan has the portals that a service port is to have after a change.
type plan struct {
	change  service.Change
	created time.Time
	portals []portal.Portal // empty: it is to have none
}

// claims enters plans into the table of portals, and takes them back when the writer refuses them.
type claims struct {
	table     *portal.Table
	conflicts []portal.Conflict // of this sync
}

// enter enters plans into the table, and returns the portals that changed.
func (c *claims) enter(plans []plan) []portal.Change {
	var changed []portal.Change
	for _, p := range plans {
		moved, conflicts := c.table.Set(p.change.Name, p.created, p.portals)
		changed = append(changed, moved...)
		c.conflicts = append(c.conflicts, conflicts...)
	}
	return newest(changed)
}

// current returns plans that leave the table as it is.
func (c *claims) current(plans []plan) []plan {
	out := make([]plan, 0, len(plans))
	for _, p := range plans {
		created, portals := c.table.Claims(p.change.Name)
		out = append(out, plan{p.change, created, portals})
	}
	return out
}

// restore enters the plans that the table had before, and drops the conflicts of the plans that it had instead.
func (c *claims) restore(before []plan) {
	known := len(c.conflicts)
	c.enter(before)
	restored := make(map[service.PortName]struct{}, len(before))
	for _, p := range before {
		restored[p.change.Name] = struct{}{}
	}
	c.conflicts = slices.DeleteFunc(c.conflicts[:known], func(x portal.Conflict) bool {
		_, holder := restored[x.Holder]
		_, loser := restored[x.Loser]
		return holder || loser
	})
}

// newest merges the changes of each frontend: one that passes from one Service to another changes twice.
func newest(changes []portal.Change) []portal.Change {
	at := make(map[service.Frontend]int, len(changes))
	out := changes[:0]
	for _, c := range changes {
		if i, ok := at[c.Frontend]; ok {
			c.Was = out[i].Was
			out[i] = c
			continue
		}
		at[c.Frontend] = len(out)
		out = append(out, c)
	}
	return out
}
