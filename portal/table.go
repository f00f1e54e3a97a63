package portal

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
)

// Conflict says that a service port does not get a frontend: Holder has it, and Loser claims it too.
type Conflict struct {
	Frontend      service.Frontend
	Holder, Loser service.PortName
}

// Table knows the claims to each frontend, and their holder: the older Service, by creation time and then by name, so
// that the order in which claims arrive decides nothing. The next claim gets a frontend when its holder withdraws.
// One goroutine changes it, and any may ask.
type Table struct {
	mu     sync.RWMutex                 // held for changes, and by others to ask
	claims map[service.Frontend][]claim // never empty; the holder first
	owned  map[service.PortName][]service.Frontend
}

type claim struct {
	created time.Time
	portal  Portal
}

// NewTable returns a Table without claims.
func NewTable() *Table {
	return &Table{claims: map[service.Frontend][]claim{}, owned: map[service.PortName][]service.Frontend{}}
}

// Set replaces all claims of owner by portals, whose Owner it sets; none withdraws everything. Of two portals with
// one frontend the one of the lower kind counts. It returns the frontends whose portal changed, and the claims that
// are lost now and were not before, both ordered by frontend. It costs O(portals of the owner).
func (t *Table) Set(owner service.PortName, created time.Time, portals []Portal) ([]Change, []Conflict) {
	wanted := byFrontend(owner, portals)
	touched := slices.Clone(t.owned[owner]) // which this goroutine alone changes
	for _, p := range wanted {
		touched = append(touched, p.Frontend)
	}
	slices.SortFunc(touched, service.Frontend.Compare)
	touched = slices.Compact(touched)

	t.mu.Lock()
	defer t.mu.Unlock()
	before := make([][]claim, len(touched))
	for i, f := range touched {
		before[i] = t.claims[f]
		t.withdraw(f, owner)
	}
	delete(t.owned, owner)
	for _, p := range wanted {
		t.enter(claim{created, p})
		t.owned[owner] = append(t.owned[owner], p.Frontend)
	}

	var changes []Change
	var conflicts []Conflict
	for i, f := range touched {
		after := t.claims[f]
		if was, is := holder(before[i]), holder(after); !same(was, is) {
			changes = append(changes, Change{f, is, was})
		}
		conflicts = append(conflicts, newlyLost(f, before[i], after)...)
	}
	return changes, conflicts
}

// Claims returns what Set was given for an owner.
func (t *Table) Claims(owner service.PortName) (created time.Time, portals []Portal) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, f := range t.owned[owner] {
		for _, c := range t.claims[f] {
			if c.portal.Owner == owner {
				created, portals = c.created, append(portals, c.portal)
			}
		}
	}
	return created, portals
}

// Keeps tells whether Set would change nothing. Costs O(portals of the owner).
func (t *Table) Keeps(owner service.PortName, created time.Time, portals []Portal) bool {
	wanted := byFrontend(owner, portals)
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(wanted) != len(t.owned[owner]) {
		return false
	}
	for _, p := range wanted {
		if !slices.ContainsFunc(t.claims[p.Frontend], func(c claim) bool {
			return c.portal == p && c.created.Equal(created)
		}) {
			return false
		}
	}
	return true
}

// PortalAt returns the portal of a frontend, nil when it is not claimed.
func (t *Table) PortalAt(f service.Frontend) *Portal {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return holder(t.claims[f])
}

// Portals returns all holders, ordered by frontend.
func (t *Table) Portals() []Portal {
	t.mu.RLock()
	n := len(t.claims)
	t.mu.RUnlock()
	out := slices.AppendSeq(make([]Portal, 0, n), t.All())
	slices.SortFunc(out, func(a, b Portal) int { return a.Frontend.Compare(b.Frontend) })
	return out
}

// All yields all holders, in no order. The table must not be used meanwhile.
func (t *Table) All() iter.Seq[Portal] {
	return func(yield func(Portal) bool) {
		t.mu.RLock()
		defer t.mu.RUnlock()
		for _, claims := range t.claims {
			if !yield(claims[0].portal) {
				return
			}
		}
	}
}

// withdraw and enter do not change the old slice: Set compares it with the new one.
func (t *Table) withdraw(f service.Frontend, owner service.PortName) {
	var rest []claim
	for _, c := range t.claims[f] {
		if c.portal.Owner != owner {
			rest = append(rest, c)
		}
	}
	if len(rest) == 0 {
		delete(t.claims, f)
		return
	}
	t.claims[f] = rest
}

func (t *Table) enter(c claim) {
	f := c.portal.Frontend
	claims := append(slices.Clone(t.claims[f]), c)
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.created.Compare(b.created), a.portal.Owner.Compare(b.portal.Owner))
	})
	t.claims[f] = claims
}

// byFrontend returns one portal for each frontend.
func byFrontend(owner service.PortName, portals []Portal) []Portal {
	out := slices.Clone(portals)
	for i := range out {
		out[i].Owner = owner
	}
	slices.SortStableFunc(out, func(a, b Portal) int {
		return cmp.Or(a.Frontend.Compare(b.Frontend), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.CompactFunc(out, func(a, b Portal) bool { return a.Frontend == b.Frontend })
}

func holder(claims []claim) *Portal {
	if len(claims) == 0 {
		return nil
	}
	p := claims[0].portal
	return &p
}

func same(a, b *Portal) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func newlyLost(f service.Frontend, before, after []claim) []Conflict {
	if len(after) < 2 {
		return nil
	}
	var out []Conflict
	for _, c := range after[1:] {
		loser := c.portal.Owner
		lostBefore := slices.IndexFunc(before, func(b claim) bool { return b.portal.Owner == loser }) > 0
		if !lostBefore {
			out = append(out, Conflict{f, after[0].portal.Owner, loser})
		}
	}
	return out
}
