package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// some returns n service ports, each with a ClusterIP of its own.
func some(n int) []*service.Port {
	var out []*service.Port
	for i := range n {
		p := portOf(fmt.Sprint("s", i), fmt.Sprintf("10.96.%d.%d:53", 1+i/250, i%250), 0, "10.1.0.1:53")
		p.Exposures = p.Exposures[:1]
		out = append(out, p)
	}
	return out
}

// in puts a service port into another namespace.
func in(namespace string, p *service.Port) *service.Port {
	p.Name.Namespace = namespace
	return p
}

var errRefused = errors.New("invalid argument")

// refusing has the writer refuse portals of this namespace that lead anywhere, or all.
func (r *rig) refusing(namespace string, all bool) {
	r.written.Refuses = func(p portal.Portal) error {
		if _, reject := p.Target.(portal.Reject); p.Owner.Namespace != namespace || reject && !all {
			return nil
		}
		return errRefused
	}
}

func (r *rig) leads(p *service.Port) portal.Target {
	return r.written.Portals[p.Exposures[0].Frontend].Target
}

func (r *rig) resync(t *testing.T, ports ...*service.Port) {
	t.Helper()
	if err := r.Resync(t.Context(), ports); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) count(call string) int {
	return len(slices.DeleteFunc(slices.Clone(r.lines), func(line string) bool { return !strings.HasPrefix(line, call) }))
}

// Of a thousand service ports the one that the writer refuses is found in a few tries, and all others are served: in a
// resync, and in a sync. The part of it that the writer refuses decides whether clients are refused or get no answer.
func TestOneIsRefused(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("all of it %t, resync %t", all, full), func(t *testing.T) {
				r := newRig()
				r.refusing("evil", all)
				ports := some(1000)
				bad := in("evil", ports[617])
				if full {
					r.resync(t, ports...)
				} else {
					r.resync(t)
					r.sync(t, ports...)
				}
				for _, p := range ports {
					if _, led := r.leads(p).(portal.Redirect); led == (p == bad) {
						t.Fatalf("%s leads to %T", p.Name, r.leads(p))
					}
				}
				if _, refuses := r.leads(bad).(portal.Reject); refuses == all {
					t.Errorf("what is refused leads to %T", r.leads(bad))
				}
				if s, ok := r.Status(bad.Name); !ok || s.Reason != ByRules || !errors.Is(s.Err, errRefused) {
					t.Errorf("it stands as %+v", s)
				}
				if len(r.refusals) != 1 || r.refusals[0].Name != bad.Name || r.refusals[0].Reason != ByRules ||
					!errors.Is(r.refusals[0].Err, errRefused) || r.quarantined != 1 {
					t.Errorf("told of %v, %d in quarantine", r.refusals, r.quarantined)
				}
				if n := r.count("refused"); n > 15 {
					t.Errorf("%d tries in vain", n)
				}
				mended := portOf("s617", bad.Exposures[0].Frontend.Addr.String(), 0, "10.1.0.2:53")
				in("evil", mended).Exposures = bad.Exposures
				r.written.Refuses = nil
				if r.sync(t, mended); r.quarantined != 0 || len(r.refusals) != 2 || r.refusals[1].Err != nil {
					t.Errorf("mended: %d in quarantine, told of %v", r.quarantined, r.refusals)
				}
				if _, led := r.leads(bad).(portal.Redirect); !led {
					t.Errorf("mended it leads to %T", r.leads(bad))
				}
			})
		}
	}
}

// A service port in quarantine is tried again by itself, and leaves quarantine once it is accepted.
func TestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.refusing("evil", false)
		bad := in("evil", some(1)[0])
		r.sync(t, bad)
		for range 5 {
			<-r.Due()
			r.sync(t)
		}
		if _, reject := r.leads(bad).(portal.Reject); !reject || len(r.refusals) != 1 {
			t.Errorf("leads to %T, told of %v", r.leads(bad), r.refusals)
		}
		for start := time.Now(); time.Since(start) < time.Hour; r.sync(t) {
			<-r.Due()
		}
		if len(r.refusals) != 2 && len(r.refusals) != 3 {
			t.Errorf("told of %d times in an hour", len(r.refusals))
		}
		r.written.Refuses = nil
		began := time.Now()
		<-r.Due()
		r.sync(t)
		if _, led := r.leads(bad).(portal.Redirect); !led || r.quarantined != 0 {
			t.Errorf("leads to %T, %d in quarantine", r.leads(bad), r.quarantined)
		}
		if waited := time.Since(began); waited < 30*time.Second || waited > lastRetry {
			t.Errorf("the last try came %s after the one before", waited)
		}
		r.sync(t, &service.Port{Name: bad.Name, Exposures: bad.Exposures, Created: bad.Created})
		time.Sleep(time.Hour)
		select {
		case <-r.Due():
			t.Error("nothing is in quarantine, and yet something is due")
		default:
		}
	})
}

// slow has each write of everything take a second, and of changes a tenth.
func (r *rig) slow() {
	var seen int
	r.written.Before = func() {
		time.Sleep(100 * time.Millisecond)
		if n := r.count("replace"); n != seen {
			time.Sleep(900 * time.Millisecond)
			seen = n
		}
	}
}

// Who writes a Service every second that the writer refuses, the same or each time another, takes a tenth of the time
// from others, whose changes are written at what they cost.
func TestTenantOfManyBadServices(t *testing.T) {
	for _, same := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.refusing("evil", false)
			good := some(10)
			r.resync(t, good...)
			r.slow()
			bad := some(1000)[500:]
			r.sync(t, in("evil", bad[0]))
			var longest, all time.Duration
			r.took()
			began, rounds := time.Now(), 300
			for i := range rounds {
				p := *bad[0]
				if !same {
					p = *in("evil", bad[1+i])
				}
				p.Affinity = time.Duration(1+i) * time.Second
				other := *good[i%10]
				other.Mode = service.ModeUserspace + service.Mode(i/10%2)
				start := time.Now()
				r.sync(t, &p, &other)
				if _, reject := r.leads(&other).(portal.Reject); reject ||
					r.written.Portals[other.Exposures[0].Frontend].Owner != other.Name {
					t.Fatalf("round %d: another's Service leads to %T", i, r.leads(&other))
				}
				took := time.Since(start)
				longest, all = max(longest, took), all+took
				time.Sleep(time.Second)
			}
			lost := all - time.Duration(rounds)*100*time.Millisecond
			t.Logf("the same %t: longest %s, %s of %s lost, %d resyncs", same, longest, lost, time.Since(began),
				r.count("replace"))
			if longest > 3*time.Second || lost > time.Since(began)/8 {
				t.Errorf("others waited up to %s, and %s of %s", longest, lost, time.Since(began))
			}
		})
	}
}

// A host that refuses everything is nobody's fault, and nobody is in quarantine.
func TestHostRefuses(t *testing.T) {
	r := newRig()
	r.resync(t, some(100)...)
	r.took()
	r.written.Err = errors.New("no lock")
	all := some(101)
	err := r.Sync(t.Context(), []service.Change{{Name: all[100].Name, Port: all[100]}})
	if !errors.Is(err, r.written.Err) {
		t.Errorf("sync: %v", err)
	}
	if err := r.Resync(t.Context(), all); !errors.Is(err, r.written.Err) || r.quarantined != 0 || len(r.refusals) != 0 {
		t.Errorf("resync: %v, %d in quarantine, told of %v", err, r.quarantined, r.refusals)
	}
	if n := r.count("replace") + r.count("update"); n > 5 {
		t.Errorf("%d tries", n)
	}
	r.written.Err = nil
	if r.resync(t, all...); len(r.written.Portals) != 101 {
		t.Errorf("%d portals", len(r.written.Portals))
	}
}

// Portals that the writer does not let go of stay with what carries them, until it does.
func TestRemovalIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ports := some(2)
		r.resync(t, ports...)
		stays := ports[0].Exposures[0].Frontend
		r.written.Lacks = func(leads map[service.Frontend]portal.Portal) error {
			if _, there := leads[stays]; !there {
				return errRefused
			}
			return nil
		}
		r.took()
		gone := []service.Change{{Name: ports[0].Name}, {Name: ports[1].Name}}
		if err := r.Sync(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(r.lines, "closed s0") || !slices.Contains(r.lines, "closed s1") || r.quarantined != 1 {
			t.Errorf("%d in quarantine, %s", r.quarantined, r.took())
		}
		r.resync(t)
		r.written.Lacks = nil
		<-r.Due()
		if r.sync(t); !slices.Contains(r.lines, "closed s0") || r.quarantined != 0 || len(r.written.Portals) != 0 {
			t.Errorf("%d in quarantine, %s", r.quarantined, r.took())
		}
	})
}

// A portal that no rule can express is left out, and the rest of its service port is served.
func TestUnsound(t *testing.T) {
	r := newRig()
	p := portOf("dns", vip, 0, "10.1.0.1:53")
	p.Exposures = append(p.Exposures, service.Exposure{
		Frontend: service.Frontend{Addr: netip.MustParseAddrPort("0.0.0.0:53"), Protocol: inet.UDP},
		Kind:     service.ExternalIP,
	})
	r.sync(t, p)
	if len(r.written.Portals) != 2 || len(r.refusals) != 1 || r.refusals[0].Reason != ByPortal ||
		!strings.Contains(r.refusals[0].Err.Error(), "0.0.0.0:53") {
		t.Errorf("%d portals, told of %v", len(r.written.Portals), r.refusals)
	}
	if r.count("update") != 1 || r.count("replace") != 0 {
		t.Error(r.took())
	}
}

// A conflict that a failed change would have caused is not reported.
func TestContestedWhileRefused(t *testing.T) {
	r := newRig()
	r.resync(t)
	r.refusing("evil", true)
	older := in("evil", portOf("older", vip, 0, "10.1.0.1:53"))
	younger := portOf("younger", vip, 0, "10.1.0.1:53")
	older.Exposures, younger.Exposures, younger.Created = older.Exposures[:1], younger.Exposures[:1], time.Unix(2, 0)
	r.sync(t, older, younger)
	at := younger.Exposures[0].Frontend
	if s, ok := r.Status(younger.Name); !ok || len(s.Claims) != 1 || s.Holders[at] != younger.Name || s.Reason != "" {
		t.Errorf("it stands as %+v", s)
	}
	if r.written.Portals[at].Owner != younger.Name || len(r.contested) != 0 {
		t.Errorf("leads to %v, told of %v", r.written.Portals, r.contested)
	}
}

// A change that fails because others took the host's rules away is no Service's fault: all are written again, and
// nobody is in quarantine.
func TestRulesAreGone(t *testing.T) {
	r := newRig()
	ports, wiped := some(2), true
	r.resync(t, ports[0])
	r.written.Before = func() {
		if r.written.Err = nil; wiped {
			r.written.Err, wiped = errRefused, false
		}
	}
	r.sync(t, ports[1])
	for _, p := range ports {
		if _, led := r.leads(p).(portal.Redirect); !led {
			t.Errorf("%s leads to %T", p.Name, r.leads(p))
		}
	}
	rewritten := r.count("rewritten after program 1 portals: invalid argument")
	if len(r.refusals) != 0 || r.count("replace") != 2 || rewritten != 1 {
		t.Errorf("told of %v; %s", r.refusals, r.took())
	}
}

// So it is where guards of proxy ports go, also as a daemon leaves: rules are there that the kernel goes on with,
// or none after a Close.
func TestRulesAreGoneAsItLeaves(t *testing.T) {
	for _, closes := range []bool{false, true} {
		r := newRig()
		r.resync(t, some(1)...)
		if closes {
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		port := portal.ProxyPort{Family: inet.IPv4, Protocol: inet.UDP, Port: proxyPort}
		r.listeners.ports, r.written.Unknown = map[portal.ProxyPort]bool{port: false}, true
		if err := r.Unguard(t.Context()); err != nil {
			t.Errorf("closes %t: %v", closes, err)
		}
		if has := len(r.written.Portals) > 0; has == closes || r.written.Unknown {
			t.Errorf("closes %t: there are rules: %t; %s", closes, has, r.took())
		}
	}
}
