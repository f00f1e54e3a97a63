package ipvs

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// valid returns the portals of the families that are served, without those that IPVS cannot hold and what is wrong with
// these. The Rules check their own.
func (w *Writer) valid(portals []portal.Portal) ([]portal.Portal, error) {
	served := slices.DeleteFunc(slices.Clone(portals), func(p portal.Portal) bool { return !w.serves(p.Frontend) })
	return writer.Valid(served, check)
}

// validChanges is valid for changes; one that fails withdraws the frontend.
func (w *Writer) validChanges(changes []portal.Change) ([]portal.Change, error) {
	served := slices.DeleteFunc(slices.Clone(changes), func(c portal.Change) bool { return !w.serves(c.Frontend) })
	return writer.ValidChanges(served, check)
}

func (w *Writer) serves(f service.Frontend) bool { return f.Addr.Addr().Is4() || w.v6 }

// Check returns an error for a portal that cannot be held, here or by the Rules.
func (w *Writer) Check(p portal.Portal) error {
	if spreads(p) {
		return check(p)
	}
	return w.Rules.Check(p)
}

// check returns an error for a portal that spreads and that no virtual server can hold.
func check(p portal.Portal) error {
	if !spreads(p) {
		return nil
	}
	return writer.Limits{}.Check(p)
}
