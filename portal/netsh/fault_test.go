package netsh

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/netshtest"
	"github.com/portald/portald/portal/service"
)

// A process that may change nothing is an error of Replace, in whatever language; what needs no address is served.
func TestNotElevated(t *testing.T) {
	for _, language := range netshtest.Languages() {
		inTime(t, func(r *rig) {
			r.sim.Language, r.sim.Faults.NotElevated = language, true
			portals := []portal.Portal{nodePort("0.0.0.0:30080 shop/cart")}
			for i := range 10 {
				portals = append(portals, clusterIP(fmt.Sprintf("10.96.0.%d:80 shop/cart%d", i+1, i)))
			}
			err := r.Replace(r.Context(), portals)
			if err == nil || !strings.Contains(err.Error(), "exit code 1") ||
				!strings.Contains(err.Error(), "LocalSystem") || !utf8.ValidString(err.Error()) {
				t.Errorf("error %q, want one with the exit code that says what to do, in UTF-8", err)
			}
			r.wantFailing() // it is nobody's fault
			r.wantServed("172.22.0.1:30080/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart")

			// The dataplane tries parts, to find who is to blame: they have the same error, and cost nothing.
			before := r.calls()
			if again := r.Replace(r.Context(), nil); again == nil || r.calls() != before {
				t.Errorf("a part: error %v, %d processes of netsh", again, r.calls()-before)
			}
			r.wantServed("172.22.0.1:30080/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart")

			time.Sleep(time.Second)
			r.sim.Faults.NotElevated = false
			r.replace(portals...)
			if n := len(r.served()); n != 12 {
				t.Errorf("%d sockets are served, want 12", n)
			}
		})
	}
}

// An address that netsh refuses fails alone, is tried ever less often, and is had as soon as that is possible.
func TestRefusedAddress(t *testing.T) {
	inTime(t, func(r *rig) {
		bad := redirect("240.0.0.9:80 evil/bad", service.LoadBalancerIP)
		refused := with(redirect("240.0.0.9:81 evil/bad", service.LoadBalancerIP), portal.Reject{})
		r.replace(clusterIP("10.96.0.10:80 shop/cart"), bad, refused)
		r.wantFailing([2]string{"240.0.0.9:80/tcp evil/bad", "exit code 1: The parameter is incorrect."},
			[2]string{"240.0.0.9:81/tcp evil/bad", "exit code 1"})
		r.wantServed("10.96.0.10:80/tcp shop/cart")

		before := r.calls()
		for range 20 { // a tenant that changes such a Service at all times
			r.update([]portal.Portal{with(bad, portal.Reject{})})
			r.update([]portal.Portal{bad})
		}
		r.update([]portal.Portal{clusterIP("10.96.0.11:80 shop/till")})
		if n := r.calls() - before; n != 1 {
			t.Errorf("%d processes of netsh, want one for the good address", n)
		}
		before = r.calls()
		r.pass(10 * time.Minute)
		if n := r.calls() - before; n < 10 || n > 20 {
			t.Errorf("%d tries in ten minutes, want one in a minute after the first ones", n)
		}
		if n := len(r.reports); n != 2 {
			t.Errorf("%d reports of two portals", n)
		}
		if err := r.Audit(r.Context()); err != nil {
			t.Errorf("an audit names what is known: %v", err)
		}
		r.host.Add(deviceIndex, netip.MustParsePrefix("240.0.0.9/32"))
		r.pass(follow)
		r.wantFailing()
		r.wantServed("10.96.0.10:80/tcp shop/cart", "10.96.0.11:80/tcp shop/till", "240.0.0.9:80/tcp evil/bad")
	})
}

// Of many addresses that a script does not add some are asked for one by one; the others know how it went.
func TestRefusedAddresses(t *testing.T) {
	inTime(t, func(r *rig) {
		portals := []portal.Portal{clusterIP("10.96.0.10:80 shop/cart")}
		for i := range 20 {
			portals = append(portals, redirect(fmt.Sprintf("240.0.0.%d:80 evil/bad", i+1), service.LoadBalancerIP))
		}
		r.replace(portals...)
		if len(r.failing) != 20 || r.calls() != 1+maxSingle {
			t.Errorf("%d fail after %d processes of netsh", len(r.failing), r.calls())
		}
		r.wantServed("10.96.0.10:80/tcp shop/cart")
		r.update(nil, portals[1:]...)
		r.wantFailing()
		r.pass(time.Minute)
		if !slices.Equal(r.added(), []string{"10.96.0.10/32"}) || len(r.Writer.addrs) != 1 {
			t.Errorf("%q are left, %d known", r.added(), len(r.Writer.addrs))
		}
	})
}

// A netsh that says it has done what it has not is not believed.
func TestNoEffect(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.sim.Faults.NoEffect = true
		start := time.Now()
		r.update([]portal.Portal{clusterIP("10.96.0.11:80 shop/till")}, clusterIP("10.96.0.10:80 shop/cart"))
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("an Update takes %s", took)
		}
		r.wantFailing([2]string{"10.96.0.11:80/tcp shop/till", "exit code 0, but did not"})
		if err := r.Audit(r.Context()); err != nil {
			t.Errorf("an audit names what is known: %v", err)
		}
		r.sim.Faults.NoEffect = false
		r.pass(time.Minute)
		r.wantFailing()
		r.wantAdded("10.96.0.11/32")
		r.wantServed("10.96.0.11:80/tcp shop/till")
	})
}

// A netsh that hangs is killed, at the start, or in the middle of a script; what can be served is.
func TestHang(t *testing.T) {
	for what, faults := range map[string]netshtest.Faults{"at once": {Hang: true}, "in a script": {HangAfter: 150}} {
		inTime(t, func(r *rig) {
			r.sim.Faults = faults
			var portals []portal.Portal
			for i := range 300 {
				portals = append(portals, clusterIP(fmt.Sprintf("10.96.%d.%d:80 shop/s%d", i/200, i%200+1, i)))
			}
			start := time.Now()
			err := r.Replace(r.Context(), portals)
			if took := time.Since(start); err == nil || !strings.Contains(err.Error(), "30s") || took > 40*time.Second {
				t.Errorf("%s: error %v after %s", what, err, took)
			}
			if n := len(r.served()); n != faults.HangAfter {
				t.Errorf("%s: %d are served, want %d", what, n, faults.HangAfter)
			}
			if r.Update(r.Context(), nil) == nil {
				t.Errorf("%s: an Update after an error", what)
			}
			time.Sleep(time.Second)
			r.sim.Faults = netshtest.Faults{}
			r.replace(portals...)
			if n := len(r.served()); n != 300 {
				t.Errorf("%s: %d are served in the end", what, n)
			}
		})
	}
}

// A netsh that somebody kills in a script has done a part of it; the rest is done later.
func TestKilledInAScript(t *testing.T) {
	inTime(t, func(r *rig) {
		r.sim.Faults.KillAfter = 7
		var portals []portal.Portal
		for i := range 20 {
			portals = append(portals, clusterIP(fmt.Sprintf("10.96.0.%d:80 shop/s%d", i+1, i)))
		}
		r.replace(portals...)
		if served, failing := len(r.served()), len(r.failing); served != 7+maxSingle || served+failing != 20 {
			t.Errorf("%d are served, %d fail", served, failing)
		}
		r.sim.Faults = netshtest.Faults{}
		r.pass(5 * time.Second)
		r.wantFailing()
		if n := len(r.served()); n != 20 {
			t.Errorf("%d are served in the end", n)
		}
	})
}

// An address is served as soon as duplicate-address detection is over, which nobody waits for, and is no failure.
func TestTentativeAddress(t *testing.T) {
	inTime(t, func(r *rig) {
		r.host.Detection = 3 * time.Second
		r.replace(clusterIP("10.96.0.10:80 shop/cart"), nodePort("0.0.0.0:30080 shop/cart"))
		r.wantServed("172.22.0.1:30080/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart")
		r.pass(3*time.Second + poll)
		r.wantServed("10.96.0.10:80/tcp shop/cart", "172.22.0.1:30080/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart")
		if len(r.reports) > 0 {
			t.Errorf("reports: %q", r.reports)
		}

		r.host.Detection = time.Hour // as on an interface without a network
		r.update([]portal.Portal{clusterIP("10.96.0.11:80 shop/till")})
		r.pass(time.Minute)
		r.wantFailing([2]string{"10.96.0.10:80/tcp shop/cart", "tentative"},
			[2]string{"10.96.0.11:80/tcp shop/till", "tentative"})
		r.host.Detection = 0
		r.pass(follow)
		r.wantFailing()
	})
}

// NodePorts leave out an address of the node while it is tentative, as on an interface without a network.
func TestNodePortsOnTentativeAddress(t *testing.T) {
	inTime(t, func(r *rig) {
		r.host.Detection = time.Minute
		r.host.Add(nodeIndex, netip.MustParsePrefix("192.168.9.9/24"))
		r.replace(nodePort("0.0.0.0:30080 shop/cart"))
		r.pass(30 * time.Second)
		r.wantFailing()
		r.pass(30*time.Second + follow)
		r.wantServed("172.22.0.1:30080/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart", "192.168.9.9:30080/tcp shop/cart")
	})
}

// A host that lists an address before it can be bound to, as with one read of the addresses and another's sockets.
func TestAddressThatIsListedTooEarly(t *testing.T) {
	inTime(t, func(r *rig) {
		r.host.Detection = 2 * time.Second
		r.restart(func(o *Options) {
			o.Interfaces = func() ([]Interface, error) {
				all, err := r.interfaces()
				for _, i := range all {
					for k := range i.Addresses {
						i.Addresses[k].State = Usable
					}
				}
				return all, err
			}
		})
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.wantServed()
		r.pass(2*time.Second + poll)
		r.wantServed("10.96.0.10:80/tcp shop/cart")
		if len(r.reports) > 0 {
			t.Errorf("reports: %q", r.reports)
		}
	})
}

// An address that the host lists some time after netsh has ended is waited for, and served in the same call.
func TestAddressThatIsListedLate(t *testing.T) {
	inTime(t, func(r *rig) {
		var late time.Time
		var before []Interface
		r.restart(func(o *Options) {
			o.Run = func(ctx context.Context, args ...string) (Result, error) {
				before, _ = r.interfaces()
				late = time.Now().Add(300 * time.Millisecond)
				return r.run(ctx, args...)
			}
			o.Interfaces = func() ([]Interface, error) {
				if time.Now().Before(late) {
					return before, nil
				}
				return r.interfaces()
			}
		})
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.wantServed("10.96.0.10:80/tcp shop/cart")
		calls := r.calls()
		r.replace()
		if n := r.calls() - calls; n != 1 || len(r.logged) > 0 {
			t.Errorf("%d processes of netsh, log %q", n, r.logged)
		}
	})
}

// An address that another host has is reported, and had when that host is gone.
func TestDuplicateAddress(t *testing.T) {
	inTime(t, func(r *rig) {
		r.host.Detection = 3 * time.Second
		r.host.Taken = []netip.Addr{netip.MustParseAddr("10.96.0.10")}
		r.replace(clusterIP("10.96.0.10:80 shop/cart"), clusterIP("10.96.0.11:80 shop/till"))
		r.pass(10 * time.Second)
		r.wantFailing([2]string{"10.96.0.10:80/tcp shop/cart", "another host"})
		r.wantServed("10.96.0.11:80/tcp shop/till")
		before := r.calls()
		r.pass(10 * time.Minute)
		if n := r.calls() - before; n > 40 {
			t.Errorf("%d processes of netsh in ten minutes", n)
		}
		r.host.Taken = nil
		r.pass(2 * time.Minute)
		r.wantFailing()
		r.wantServed("10.96.0.10:80/tcp shop/cart", "10.96.0.11:80/tcp shop/till")
	})
}

// A port that another program or Windows has is reported with a remedy, and taken as soon as it is free.
func TestPortsOfOthers(t *testing.T) {
	inTime(t, func(r *rig) {
		kubelet := netshtest.Socket{Protocol: "tcp", Addr: netip.MustParseAddrPort("192.168.1.10:30080")}
		if err := r.host.Bind(kubelet); err != nil {
			t.Fatal(err)
		}
		r.host.Excluded = []netshtest.PortRange{{Family: "ipv4", Protocol: "udp", First: 50000, Last: 50059}}
		r.replace(nodePort("0.0.0.0:30080 shop/cart"), clusterIP("10.96.0.10:50001/udp shop/game"))
		r.wantFailing([2]string{"0.0.0.0:30080/tcp shop/cart", "netstat"},
			[2]string{"10.96.0.10:50001/udp shop/game", "excludedportrange"})
		if got := r.served(); !slices.Contains(got, "172.22.0.1:30080/tcp shop/cart") || len(got) != 1 {
			t.Errorf("served: %q", got)
		}
		before := r.open.listens
		r.pass(10 * time.Minute)
		if n := r.open.listens - before; len(r.reports) != 2 || n < 20 || n > 40 {
			t.Errorf("%d tries in ten minutes for two sockets, reports: %q", n, r.reports)
		}
		r.host.Release(kubelet)
		r.host.Excluded = nil
		r.pass(time.Minute)
		r.wantFailing()
		r.wantServed("10.96.0.10:50001/udp shop/game", "172.22.0.1:30080/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart")
	})
}

// Failures end with the portal, and with its owner.
func TestFailuresEnd(t *testing.T) {
	inTime(t, func(r *rig) {
		taken := netshtest.Socket{Protocol: "tcp", Addr: netip.MustParseAddrPort("172.22.0.1:80")}
		r.host.Bind(taken)
		p := redirect("172.22.0.1:80 shop/cart", service.ExternalIP)
		r.replace(p)
		r.update([]portal.Portal{redirect("172.22.0.1:80 shop/till", service.ExternalIP)})
		r.wantFailing([2]string{"172.22.0.1:80/tcp shop/till", "netstat"})
		r.update([]portal.Portal{with(redirect("172.22.0.1:80 shop/till", service.ExternalIP), portal.Reject{})})
		r.wantFailing()
		r.update([]portal.Portal{p})
		r.update(nil, p)
		r.wantFailing()
		if last := r.reports[len(r.reports)-1]; last != "172.22.0.1:80/tcp shop/cart: <nil>" {
			t.Errorf("the last report is %q", last)
		}

		r.replace(nodePort("0.0.0.0:80 shop/cart"))
		r.wantFailing([2]string{"0.0.0.0:80/tcp shop/cart", "netstat"})
		r.update([]portal.Portal{redirect("172.22.0.1:80 shop/cart", service.ExternalIP)})
		r.wantFailing([2]string{"172.22.0.1:80/tcp shop/cart", "netstat"})
	})
}

// Nothing runs longer than its context.
func TestCancelled(t *testing.T) {
	inTime(t, func(r *rig) {
		r.sim.Faults.Hang = true
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := r.Replace(ctx, []portal.Portal{clusterIP("10.96.0.10:80 shop/cart")})
		if took := time.Since(start); err == nil || took > 2*time.Second {
			t.Errorf("error %v after %s", err, took)
		}
	})
}
