package platform

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// device makes a device of this namespace with addresses, upon a parent if its kind needs one. A veth's other end stays
// here too.
func device(t *testing.T, kind, name string, parent int, addrs ...string) int {
	t.Helper()
	attrs := netlink.LinkAttrs{Name: name}
	var link netlink.Link = &netlink.Veth{LinkAttrs: attrs, PeerName: name + "-peer"}
	switch kind {
	case "bridge":
		link = &netlink.Bridge{LinkAttrs: attrs}
	case "macvlan":
		attrs.ParentIndex = parent
		link = &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatalf("add %s %s: %v", kind, name, err)
	}
	if kind == "veth" {
		raise(t, name+"-peer")
	}
	raise(t, name, addrs...)
	return link.Attrs().Index
}

func raise(t *testing.T, name string, addrs ...string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	for _, text := range addrs {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, addr); err != nil {
			t.Fatalf("give %s to %s: %v", text, name, err)
		}
		// The link takes its time.
		for start := time.Now(); !local(addr.IP.String(), netlink.RouteGetOptions{}); time.Sleep(time.Millisecond) {
			if time.Since(start) > 5*time.Second {
				t.Fatalf("%s of %s is not local", text, name)
			}
		}
	}
}

// route sends a prefix to a gateway, or to the other end of a device when that is empty.
func route(t *testing.T, device int, prefix, gateway string) {
	t.Helper()
	dst, err := netlink.ParseIPNet(prefix)
	if err != nil {
		t.Fatal(err)
	}
	r := &netlink.Route{LinkIndex: device, Dst: dst, Scope: netlink.SCOPE_LINK}
	if gateway != "" {
		r.Gw, r.Scope = netip.MustParseAddr(gateway).AsSlice(), netlink.SCOPE_UNIVERSE
	}
	if err := netlink.RouteAdd(r); err != nil {
		t.Fatalf("route %s by %q: %v", prefix, gateway, err)
	}
}

func TestDivert(t *testing.T) {
	inNamespace(t)
	raise(t, "lo")
	eth0 := device(t, "veth", "eth0", 0, "192.0.2.1/24", "fd00:9::1/64")
	neighbour := map[inet.Family]string{inet.IPv4: "192.0.2.7", inet.IPv6: "fd00:9::7"}
	d := DefaultDivert()
	for _, step := range []struct {
		what string
		do   func(family inet.Family) error
		want bool
	}{
		{"removed where it never was", d.Remove, false},
		{"added", d.Add, true},
		{"added again", d.Add, true},
		{"removed", d.Remove, false},
		{"removed again", d.Remove, false},
	} {
		for family, far := range map[inet.Family]string{inet.IPv4: "203.0.113.9", inet.IPv6: "2001:db8::9"} {
			if err := step.do(family); err != nil {
				t.Errorf("%s, %s: %v", step.what, family, err)
			}
			from := netip.MustParseAddr(neighbour[family]).AsSlice()
			came := netlink.RouteGetOptions{IifIndex: eth0, SrcAddr: from, Mark: d.Mark | 1}
			if got := local(far, came); got != step.want {
				t.Errorf("%s: a marked packet for %s is delivered here: %t", step.what, far, got)
			}
			came.Mark = 1
			if local(far, came) {
				t.Errorf("%s: a packet for %s with another mark is delivered here", step.what, far)
			}
			if local(far, netlink.RouteGetOptions{Mark: d.Mark}) {
				t.Errorf("%s: what this host sends to %s with the mark is delivered here", step.what, far)
			}
			if n := rules(t, family, d); n != 0 && n != 3 || (n == 3) != step.want {
				t.Errorf("%s: %d rules", step.what, n)
			}
		}
	}
}

// local tells whether routing delivers what goes to an address here.
func local(to string, o netlink.RouteGetOptions) bool {
	routes, err := netlink.RouteGetWithOptions(netip.MustParseAddr(to).AsSlice(), &o)
	return err == nil && routes[0].Type == unix.RTN_LOCAL
}

func rules(t *testing.T, family inet.Family, d Divert) (n int) {
	t.Helper()
	all, err := netlink.RuleList(netlinkFamily(family))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Mark == d.Mark {
			n++
		}
	}
	return n
}

// A node with pods on a device each, pods on a bridge, an uplink that is a veth, and another network besides.
func TestPaths(t *testing.T) {
	inNamespace(t)
	raise(t, "lo")
	for i := 1; i <= 2; i++ {
		pod := device(t, "veth", fmt.Sprint("pod", i), 0)
		route(t, pod, fmt.Sprintf("10.1.0.%d/32", i), "")
		route(t, pod, fmt.Sprintf("fd00:1::%d/128", i), "")
	}
	device(t, "bridge", "cni0", 0, "10.2.0.1/24", "fd00:2::1/64")
	uplink := device(t, "veth", "eth0", 0, "192.0.2.1/24", "fd00:9::1/64")
	device(t, "macvlan", "lan", uplink, "198.51.100.1/24")
	route(t, uplink, "0.0.0.0/0", "192.0.2.254")
	route(t, uplink, "::/0", "fd00:9::fe")
	route(t, uplink, "10.1.9.0/24", "192.0.2.9")

	paths := newPaths(t)
	for _, c := range []struct {
		what, client, endpoint string
		want                   bool
	}{
		{"pods of two devices", "10.1.0.1", "10.1.0.2", true},
		{"pods of two devices, IPv6", "fd00:1::1", "fd00:1::2", true},
		{"a pod and one on the bridge", "10.1.0.1", "10.2.0.5", true},
		{"a pod here and one elsewhere", "10.1.0.1", "10.1.9.5", true},
		{"one on the bridge and one elsewhere", "10.2.0.5", "10.1.9.5", true},
		{"a stranger and a pod", "203.0.113.7", "10.1.0.1", true},
		{"a neighbour and a pod", "192.0.2.7", "10.1.0.1", true},
		{"a neighbour and a pod, IPv6", "fd00:9::7", "fd00:1::1", true},
		{"two on the bridge", "10.2.0.5", "10.2.0.6", false},
		{"two on the bridge, IPv6", "fd00:2::5", "fd00:2::6", false},
		{"one pod", "10.1.0.1", "10.1.0.1", false},
		{"a stranger and a pod elsewhere", "203.0.113.7", "10.1.9.5", false},
		{"a neighbour and a pod elsewhere", "192.0.2.7", "10.1.9.5", false},
		{"one of another network and a pod elsewhere", "198.51.100.7", "10.1.9.5", false},
		{"the node and a pod", "192.0.2.1", "10.1.0.1", false},
		{"loopback and a pod", "127.0.0.1", "10.1.0.1", false},
		{"a pod and the node", "10.1.0.1", "192.0.2.1", false},
		{"a pod and the node, IPv6", "fd00:1::1", "fd00:9::1", false},
		{"a link-local neighbour and a pod", "fe80::7", "fd00:1::1", false},
		{"two families", "10.1.0.1", "fd00:1::2", false},
		{"nobody and a pod", "0.0.0.0", "10.1.0.1", false},
		{"nobody and a pod, IPv6", "::", "fd00:1::1", false},
		{"loopback and a pod, IPv6", "::1", "fd00:1::1", false},
		{"the broadcast address and a pod", "255.255.255.255", "10.1.0.1", false},
		{"the broadcast address of a network and a pod", "192.0.2.255", "10.1.0.1", false},
		{"a group and a pod", "224.0.0.1", "10.1.0.1", false},
		{"a group and a pod, IPv6", "ff0e::1", "fd00:1::1", false},
		{"IPv4 in IPv6 and a pod", "::ffff:203.0.113.7", "fd00:1::1", false},
		{"a link-local stranger and a pod", "169.254.7.7", "10.1.0.1", false},
	} {
		if got := paths.Returns(netip.MustParseAddr(c.client), netip.MustParseAddr(c.endpoint), 0); got != c.want {
			t.Errorf("%s: %t, want %t", c.what, got, c.want)
		}
	}
	// Who sends datagrams may write any address: it has to be behind the interface that they came in by.
	for _, c := range []struct {
		client string
		by     int
		want   bool
	}{
		{"203.0.113.7", uplink, true}, {"10.1.0.2", uplink, false}, {"fd00:1::2", uplink, false}, {"10.1.0.2", 0, true},
		{"10.2.0.5", uplink, false}, {"203.0.113.7", uplink + 1000, false},
	} {
		endpoint := "10.1.0.1"
		if strings.Contains(c.client, ":") {
			endpoint = "fd00:1::1"
		}
		got := paths.Returns(netip.MustParseAddr(c.client), netip.MustParseAddr(endpoint), c.by)
		if got != c.want {
			t.Errorf("%s by interface %d: %t, want %t", c.client, c.by, got, c.want)
		}
	}
	for addr, want := range map[string]bool{
		"10.1.9.5": true, "192.0.2.7": true, "203.0.113.7": true, "fd00:5::1": true,
		"10.1.0.1": false, "10.2.0.5": false, "fd00:1::1": false, "192.0.2.1": false, "127.0.0.1": false,
		"198.51.100.7": false,
	} {
		if got := paths.Remote(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s afar: %t, want %t", addr, got, want)
		}
	}
}

func newPaths(t testing.TB) *Paths {
	t.Helper()
	interfaces, err := NewInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(interfaces.Close)
	paths, err := NewPaths(interfaces)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(paths.Close)
	return paths
}

// Answers of the kernel are cached until interfaces, addresses, routes or rules change, and only while that is
// followed.
func TestPathsFollow(t *testing.T) {
	inNamespace(t)
	raise(t, "lo")
	pod1, pod2 := device(t, "veth", "pod1", 0), device(t, "veth", "pod2", 0)
	for i, pod := range []int{pod1, pod2} {
		route(t, pod, fmt.Sprintf("10.1.0.%d/32", i+1), "")
		route(t, pod, fmt.Sprintf("fd00:1::%d/128", i+1), "")
	}
	paths := newPaths(t)
	a, b := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")
	a6, b6 := netip.MustParseAddr("fd00:1::1"), netip.MustParseAddr("fd00:1::2")
	if _, known := paths.ReturnsKnown(a, b, 0); known || !paths.Returns(a, b, 0) {
		t.Error("known before anybody asked, or no way")
	}
	if _, known := paths.ReturnsKnown(a, b, 0); known {
		t.Error("known although nothing is followed")
	}
	if yes, known := paths.ReturnsKnown(a, b6, 0); yes || !known {
		t.Error("of two families nothing has to be asked")
	}
	far, _ := netlink.ParseIPNet("203.0.113.0/24")
	addr, _ := netlink.ParseAddr("192.0.2.7/24")
	only := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)}
	to2 := &netlink.Route{LinkIndex: pod2, Scope: netlink.SCOPE_LINK, Dst: only}
	to26 := &netlink.Route{LinkIndex: pod2, Dst: &net.IPNet{IP: a6.AsSlice(), Mask: net.CIDRMask(128, 128)}}
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Dst, rule.Type = netlink.FAMILY_V4, 7, far, unix.FR_ACT_UNREACHABLE
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "another"}}
	beside(t, paths.Run, func(host *netlink.Handle) error {
		want := map[bool]bool{false: true, true: true}
		for _, step := range []struct {
			what   string
			change func() error
			v6, is bool // what is so from then on, in one family
		}{
			{"nothing", func() error { return nil }, false, true},
			{"an interface more", func() error { return host.LinkAdd(link) }, false, true},
			{"an address more", func() error { return host.AddrAdd(link, addr) }, false, true},
			{"a rule more", func() error { return host.RuleAdd(rule) }, false, true},
			{"another route", func() error { return host.RouteReplace(to2) }, false, false},
			{"another route, IPv6", func() error { return host.RouteReplace(to26) }, true, false},
			{"the pod of neither", func() error { return host.LinkDel(link) }, true, false},
		} {
			now := paths.current.Load()
			if err := step.change(); err != nil {
				return fmt.Errorf("%s: %w", step.what, err)
			}
			if step.what != "nothing" {
				if err := until(func() bool { return paths.current.Load() != now }); err != nil {
					return fmt.Errorf("%s is not noticed: %w", step.what, err)
				}
			}
			want[step.v6] = step.is
			for v6, c := range map[bool][2]netip.Addr{false: {a, b}, true: {a6, b6}} {
				err := until(func() bool {
					if got := paths.Returns(c[0], c[1], 0); got != want[v6] {
						return false
					}
					got, known := paths.ReturnsKnown(c[0], c[1], 0)
					return known && got == want[v6]
				})
				if err != nil {
					return fmt.Errorf("%s, IPv6 %t: want %t: %w", step.what, v6, want[v6], err)
				}
			}
		}
		return nil
	})
	if _, known := paths.ReturnsKnown(a, b, 0); known {
		t.Error("known although nothing is followed any more")
	}
}

func BenchmarkPaths(b *testing.B) {
	paths := newPaths(b)
	client, endpoint := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8")
	for b.Loop() {
		paths.Returns(client, endpoint, 0)
	}
}
