package portal

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

var comparePortals = cmpopts.EquateComparable(netip.AddrPort{}, service.Frontend{})

func frontend(text string) service.Frontend {
	return service.Frontend{Addr: netip.MustParseAddrPort(text), Protocol: inet.TCP}
}

func owner(name string) service.PortName {
	return service.PortName{Namespace: "default", Name: name, Port: "http", Protocol: inet.TCP}
}

func redirect(addr, name string, port uint16) Portal {
	return Portal{Frontend: frontend(addr), Owner: owner(name), Target: Redirect{Port: port}}
}

func age(seconds int64) time.Time { return time.Unix(1e9+seconds, 0) }

func wantChanges(t *testing.T, got []Change, want ...Change) {
	t.Helper()
	if diff := cmp.Diff(want, got, comparePortals); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func wantConflicts(t *testing.T, got []Conflict, want ...Conflict) {
	t.Helper()
	if diff := cmp.Diff(want, got, comparePortals); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
}

func TestTableOlderHolds(t *testing.T) {
	const addr = "10.0.0.1:80"
	table := NewTable()
	young, old := redirect(addr, "a-young", 1), redirect(addr, "z-old", 2)

	changes, conflicts := table.Set(young.Owner, age(20), []Portal{young})
	wantChanges(t, changes, Change{young.Frontend, &young, nil})
	wantConflicts(t, conflicts)

	changes, conflicts = table.Set(old.Owner, age(10), []Portal{old})
	wantChanges(t, changes, Change{old.Frontend, &old, &young})
	wantConflicts(t, conflicts, Conflict{old.Frontend, old.Owner, young.Owner})

	changes, conflicts = table.Set(young.Owner, age(20), []Portal{young})
	wantChanges(t, changes)
	wantConflicts(t, conflicts)

	changes, conflicts = table.Set(old.Owner, age(10), nil)
	wantChanges(t, changes, Change{young.Frontend, &young, &old})
	wantConflicts(t, conflicts)

	changes, _ = table.Set(young.Owner, age(20), nil)
	wantChanges(t, changes, Change{young.Frontend, nil, &young})
	if len(table.claims) != 0 || len(table.owned) != 0 {
		t.Errorf("an empty table keeps %v, %v", table.claims, table.owned)
	}
}

func TestTableNameDecidesBetweenEqualAges(t *testing.T) {
	const addr = "10.0.0.1:80"
	a, b := redirect(addr, "a", 1), redirect(addr, "b", 2)
	for _, order := range [][]Portal{{a, b}, {b, a}} {
		table := NewTable()
		for _, p := range order {
			table.Set(p.Owner, age(1), []Portal{p})
		}
		if got := table.Portals(); !slices.Equal(got, []Portal{a}) {
			t.Errorf("held: %v, want the portal of %s", got, a.Owner)
		}
	}
}

func TestTableReportsEachLossOnce(t *testing.T) {
	const addr = "10.0.0.1:80"
	table := NewTable()
	a, b, c := redirect(addr, "a", 1), redirect(addr, "b", 2), redirect(addr, "c", 3)
	table.Set(a.Owner, age(1), []Portal{a})
	_, conflicts := table.Set(b.Owner, age(2), []Portal{b})
	wantConflicts(t, conflicts, Conflict{a.Frontend, a.Owner, b.Owner})
	_, conflicts = table.Set(c.Owner, age(3), []Portal{c})
	wantConflicts(t, conflicts, Conflict{a.Frontend, a.Owner, c.Owner})
	changes, conflicts := table.Set(a.Owner, age(1), nil)
	wantChanges(t, changes, Change{b.Frontend, &b, &a})
	wantConflicts(t, conflicts)
	_, conflicts = table.Set(a.Owner, age(1), []Portal{a})
	wantConflicts(t, conflicts, Conflict{a.Frontend, a.Owner, b.Owner})
}

func TestTableChangeOfTarget(t *testing.T) {
	table := NewTable()
	before := []Portal{redirect("10.0.0.1:80", "a", 1), redirect("10.0.0.2:80", "a", 1), redirect("10.0.0.3:80", "a", 1)}
	table.Set(owner("a"), age(1), before)
	after := []Portal{before[2], before[0]}
	after[0].Target = Reject{}
	changes, _ := table.Set(owner("a"), age(1), after)
	wantChanges(t, changes, Change{before[1].Frontend, nil, &before[1]},
		Change{after[0].Frontend, &after[0], &before[2]})
}

func TestTableOneKindAFrontend(t *testing.T) {
	table := NewTable()
	external, balancer := redirect("192.0.2.1:80", "a", 1), redirect("192.0.2.1:80", "a", 1)
	external.Kind, balancer.Kind = service.ExternalIP, service.LoadBalancerIP
	_, conflicts := table.Set(owner("a"), age(1), []Portal{balancer, external})
	wantConflicts(t, conflicts)
	if got := table.Portals(); !slices.Equal(got, []Portal{external}) {
		t.Errorf("held: %v, want %v", got, external)
	}
}

// FuzzTable: whatever came before, the table holds what the last state of each owner gives in any order, and the
// changes it reported lead there.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 1, 1, 2, 2, 7, 0, 3, 0, 0, 0})
	f.Add([]byte{5, 3, 9, 4, 3, 9, 3, 3, 255, 4, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		type state struct {
			created time.Time
			portals []Portal
		}
		table, last, told := NewTable(), map[service.PortName]state{}, map[service.Frontend]Portal{}
		for ; len(data) >= 3; data = data[3:] {
			name, s := owner(string('a'+rune(data[0]%6))), state{created: age(int64(data[1] % 3))}
			for bit := range 8 {
				if data[2]&(1<<bit) == 0 {
					continue
				}
				addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(bit % 4)}), 80)
				p := Portal{Frontend: service.Frontend{Addr: addr, Protocol: inet.TCP}, Owner: name,
					Target: Redirect{Port: uint16(data[1])}}
				if bit >= 4 {
					p.Kind = service.ExternalIP
				}
				s.portals = append(s.portals, p)
			}
			last[name] = s
			changes, _ := table.Set(name, s.created, s.portals)
			for _, c := range changes {
				if c.Portal == nil {
					delete(told, c.Frontend)
				} else {
					told[c.Frontend] = *c.Portal
				}
			}
		}
		fresh := NewTable()
		for name, s := range last { // the order of a map is any order
			fresh.Set(name, s.created, s.portals)
		}
		holders := table.Portals()
		if diff := cmp.Diff(fresh.Portals(), holders, comparePortals); diff != "" {
			t.Errorf("history shows (-last state +got):\n%s", diff)
		}
		for _, p := range holders {
			if told[p.Frontend] != p {
				t.Errorf("held %v, told %v", p, told[p.Frontend])
			}
		}
		if len(told) != len(holders) {
			t.Errorf("told of %d frontends, %d held", len(told), len(holders))
		}
	})
}

func BenchmarkTableSet(b *testing.B) {
	for _, size := range []int{100, 1_000, 10_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			table := NewTable()
			for i := range size {
				addr := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
				p := Portal{Frontend: service.Frontend{Addr: netip.AddrPortFrom(addr, 80), Protocol: inet.TCP}, Target: Reject{}}
				table.Set(owner(addr.String()), age(0), []Portal{p})
			}
			p := redirect("10.9.9.9:80", "x", 1)
			for b.Loop() {
				table.Set(p.Owner, age(1), []Portal{p})
				table.Set(p.Owner, age(1), nil)
			}
		})
	}
}
