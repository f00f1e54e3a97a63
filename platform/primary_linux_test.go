package platform

import (
	"fmt"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestPrimaryAddresses(t *testing.T) {
	inNamespace(t)
	check := func(when, want string) {
		t.Helper()
		if got, err := PrimaryAddresses("services"); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v, want %s", when, got, err, want)
		}
	}
	add := func(link netlink.Link, texts ...string) {
		t.Helper()
		for _, text := range texts {
			addr, err := netlink.ParseAddr(text)
			if err != nil {
				t.Fatal(err)
			}
			addr.Flags = 2 // IFA_F_NODAD
			if err := netlink.AddrAdd(link, addr); err != nil {
				t.Fatal(err)
			}
		}
	}
	services, a, b := bridge(t, "services"), bridge(t, "a"), bridge(t, "b")
	for _, link := range []netlink.Link{services, a, b} {
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	add(services, "10.96.0.1/32", "fd00:96::1/128")
	add(lo, "203.0.113.1/32")
	check("nothing but loopback and Services", "[]")
	add(a, "192.0.2.7/24", "192.0.2.8/24", "fd00:a::7/64")
	add(b, "198.51.100.7/24", "198.51.100.9/24", "fd00:b::7/64")
	check("without a default route", "[192.0.2.7 fd00:a::7]")
	route := func(gateway, src string, priority int) {
		t.Helper()
		r := &netlink.Route{Gw: net.ParseIP(gateway), Src: net.ParseIP(src), Priority: priority}
		if err := netlink.RouteAdd(r); err != nil {
			t.Fatal(err)
		}
	}
	route("198.51.100.1", "", 100)
	route("fd00:b::1", "", 100)
	check("with a default route", "[198.51.100.7 fd00:b::7]")
	route("192.0.2.1", "192.0.2.8", 50)
	check("with a better one that names an address", "[192.0.2.8 fd00:b::7]")
}
