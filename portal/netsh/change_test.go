package netsh

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/portal"
)

// changes makes a Change of addresses of a rig's host, except those that it refuses or only claims to change.
func (r *rig) changes(refused, claimed func(a netip.Addr) bool) func(*Options) {
	return func(o *Options) {
		o.Change = func(luid uint64, a netip.Addr, add bool) error {
			switch {
			case luid != luidOf(deviceIndex):
				r.Errorf("changes the interface with LUID %d", luid)
			case refused(a):
				return errors.New("CreateUnicastIpAddressEntry: access is denied (5)")
			case claimed(a):
			case add:
				return r.host.Add(deviceIndex, netip.PrefixFrom(a, a.BitLen()))
			default:
				return r.host.Remove(deviceIndex, a)
			}
			return nil
		}
	}
}

func never(netip.Addr) bool { return false }

func manyPortals(n int) (out []portal.Portal) {
	for i := range n {
		out = append(out, clusterIP(fmt.Sprintf("10.96.0.%d:80 shop/s%d", i+1, i)))
	}
	return append(out, clusterIP("[fd00::1]:80 shop/six"))
}

// Addresses are added and removed by the calls of the system, without a process.
func TestCalls(t *testing.T) {
	inTime(t, func(r *rig) {
		r.restart(r.changes(never, never))
		r.replace(manyPortals(100)...)
		r.wantFailing()
		if n := len(r.served()); n != 101 {
			r.Errorf("%d are served, want 101", n)
		}
		if err := r.Cleanup(r.Context()); err != nil {
			r.Error(err)
		}
		if calls := r.sim.Calls(); len(calls) > 0 {
			r.Errorf("netsh ran: %q", calls)
		}
		if all, _ := r.host.Interfaces(); len(all[2].Addresses) != 1 {
			r.Errorf("left %v", all[2].Addresses)
		}
	})
}

// What the calls refuse, netsh does; what neither does has both reasons.
func TestCallsFallBack(t *testing.T) {
	odd := func(a netip.Addr) bool { return a.Is4() && a.As4()[3]%2 == 1 }
	inTime(t, func(r *rig) {
		r.restart(r.changes(odd, never))
		r.replace(manyPortals(4)...)
		r.wantFailing()
		if n := len(r.sim.Calls()); n != 2 {
			r.Errorf("netsh ran %d times, want 2: %q", n, r.sim.Calls())
		}
		r.sim.Faults.NotElevated = true
		r.update([]portal.Portal{clusterIP("10.96.0.101:80 shop/last")})
		text := r.failing["10.96.0.101:80/tcp shop/last"]
		if text == "" {
			text = strings.Join(r.reports, "\n")
		}
		for _, part := range []string{"netsh ends with exit code 1", "CreateUnicastIpAddressEntry: access is denied (5)"} {
			if !strings.Contains(text, part) {
				r.Errorf("reports %q, want %q", text, part)
			}
		}
	})
}

// A call that reports success and did nothing is reported.
func TestCallsWithoutEffect(t *testing.T) {
	inTime(t, func(r *rig) {
		two := netip.MustParseAddr("10.96.0.2")
		r.restart(r.changes(never, func(a netip.Addr) bool { return a == two }))
		r.replace(manyPortals(3)...)
		if !slices.ContainsFunc(r.reports, func(s string) bool { return strings.Contains(s, "reports that it is done") }) {
			r.Errorf("reports %q", r.reports)
		}
		if n := len(r.served()); n != 3 {
			r.Errorf("%d are served, want 3", n)
		}
	})
}

// A Writer with a netsh of its own makes no calls unless it is given some.
func TestCallsAreOfThisHost(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(manyPortals(1)...)
		if len(r.sim.Calls()) == 0 {
			r.Error("netsh did not run")
		}
	})
}
