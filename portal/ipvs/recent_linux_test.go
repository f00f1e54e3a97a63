package ipvs

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/portaltest"
)

// The client that dialled an address before it was the node's is not IPVS' by its conntrack entry of then: it gets
// through once that is deleted, and is not cut off later.
func TestEarlyClientWaitsForItsEntryToGo(t *testing.T) {
	n := newNode(t, nil)
	a, router := n.AddPod("a", "pod1", 1), n.AddPod("router", "pod2", 2)
	router.Must(func() error { return netnstest.Sysctl("net/ipv4/ip_forward", "0") })
	n.Write(nil)
	n.Node.Must(func() error {
		via := &netlink.Route{Dst: prefix(netip.MustParsePrefix("10.96.0.0/12")), Gw: router.Addrs.V4.AsSlice()}
		return netlink.RouteAdd(via)
	})
	type outcome struct {
		call *portaltest.Call
		err  error
	}
	dialled := make(chan outcome)
	go func() {
		call, err := portaltest.Dial(n.Client, "tcp", vip, netip.Addr{}, time.Minute)
		dialled <- outcome{call, err}
	}()
	n.until("a client of before", tracked)
	p := lead(a)
	n.change(&p)
	n.until("its next try to be dropped", dropped)
	if all := n.conns(); all != 0 {
		t.Errorf("IPVS took the client by its old entry: %d connections", all)
	}
	n.Node.Must(func() error {
		early := &netlink.ConntrackFilter{}
		if err := early.AddIP(netlink.ConntrackOrigDstIP, netip.MustParseAddrPort(vip).Addr().AsSlice()); err != nil {
			return err
		}
		_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, early)
		return err
	})
	got := <-dialled
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.call.Close()
	for range 2 {
		if r := got.call.Ask(); r.Came != portaltest.Answered || r.By != "a" {
			t.Errorf("the early client has %v", r)
		}
	}
}

// until waits for an event, with as much time as a machine without hardware to run on may need.
func (n *node) until(what string, happened func() (bool, error)) {
	n.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var yes bool
		n.Node.Must(func() (err error) {
			yes, err = happened()
			return err
		})
		if yes {
			return
		}
	}
	n.Fatalf("waited for %s", what)
}

// tracked tells whether a client of vip has a conntrack entry.
func tracked() (bool, error) {
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	return slices.ContainsFunc(flows, func(f *netlink.ConntrackFlow) bool {
		return f.Forward.DstIP.Equal(netip.MustParseAddrPort(vip).Addr().AsSlice())
	}), err
}

// dropped tells whether a packet of an early client was dropped.
func dropped() (bool, error) {
	out, err := exec.Command("iptables-save", "-c", "-t", "mangle").CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("%w: %s", err, out)
	}
	return regexp.MustCompile(`\[[1-9]\d*:\d+\] -A PORTALD-IPVS-DROP .*-IPVS-RECENT`).Match(out), nil
}

// conns are the connections that IPVS has of vip.
func (n *node) conns() (all int) {
	n.Helper()
	for _, d := range n.installed() {
		all += d.conns
	}
	return all
}

func prefix(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
