package platform

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridge makes an interface that leads nowhere.
func bridge(t *testing.T, name string) netlink.Link {
	t.Helper()
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	return link
}

func TestInterfaces(t *testing.T) {
	inNamespace(t)
	interfaces, err := NewInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	defer interfaces.Close()
	known := func(index int) string {
		name, _ := interfaces.NameKnown(index)
		return name
	}
	if _, ok := interfaces.NameKnown(1); ok {
		t.Error("known before anything is followed")
	}
	beside(t, interfaces.Run, func(host *netlink.Handle) error {
		if err := until(func() bool { return known(1) == "lo" }); err != nil {
			return err
		}
		for _, name := range []string{"cali0123456789a", "cni0"} {
			link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
			if err := host.LinkAdd(link); err != nil {
				return err
			}
			index := link.Attrs().Index
			for _, step := range []struct {
				change func() error
				want   string
			}{
				{func() error { return nil }, name},
				{func() error { return host.LinkSetName(link, "renamed") }, "renamed"},
				{func() error { return host.LinkSetUp(link) }, "renamed"},
				{func() error { return host.LinkDel(link) }, ""},
			} {
				if err := step.change(); err != nil {
					return err
				}
				if err := until(func() bool { return known(index) == step.want }); err != nil {
					return fmt.Errorf("%d is %q, want %q: %w", index, known(index), step.want, err)
				}
			}
			if got := interfaces.Name(index); got != "" {
				return fmt.Errorf("%d is gone, and %q", index, got)
			}
		}
		return nil
	})
	for _, name := range []string{"cali0123456789a", "cni0"} {
		link := bridge(t, name)
		index := link.Attrs().Index
		if got := interfaces.Name(index); got != name {
			t.Errorf("%d is %q, want %q", index, got, name)
		}
		if err := netlink.LinkSetName(link, "renamed"); err != nil {
			t.Fatal(err)
		}
		if got := interfaces.Name(index); got != "renamed" {
			t.Errorf("%d is %q now", index, got)
		}
		if err := netlink.LinkDel(link); err != nil {
			t.Fatal(err)
		}
		if got := interfaces.Name(index); got != "" {
			t.Errorf("%d is gone, and %q", index, got)
		}
	}
	for index, want := range map[int]string{1: "lo", 0: "", -1: "", 1 << 20: ""} {
		if got := interfaces.Name(index); got != want {
			t.Errorf("%d is %q, want %q", index, got, want)
		}
	}
}

// steps change addresses and wait until the set knows. They run beside Run, which keeps the thread that is in the
// namespace.
func steps(host *netlink.Handle, s *LocalSet, a, b netlink.Link) error {
	v4, _ := netlink.ParseAddr("192.0.2.7/24")
	v6, _ := netlink.ParseAddr("fd00::7/64")
	for _, step := range []struct {
		what func() error
		addr string
		want bool
	}{
		{what: func() error { return host.AddrAdd(a, v4) }, addr: "192.0.2.7", want: true},
		{what: func() error { return host.AddrAdd(b, v6) }, addr: "fd00::7", want: true},
		{what: func() error { return host.AddrAdd(b, v4) }, addr: "192.0.2.7", want: true},
		{what: func() error { return host.AddrDel(b, v6) }, addr: "fd00::7", want: false},
		{what: func() error { return errors.Join(host.AddrDel(a, v4), host.AddrAdd(b, v6)) }, addr: "fd00::7", want: true},
		{what: func() error { return nil }, addr: "192.0.2.7", want: true}, // b has it yet
		{what: func() error { return host.LinkDel(b) }, addr: "192.0.2.7", want: false},
	} {
		if err := step.what(); err != nil {
			return err
		}
		addr := netip.MustParseAddr(step.addr)
		for deadline := time.Now().Add(5 * time.Second); s.Contains(addr) != step.want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return fmt.Errorf("%s is still not %v", addr, step.want)
			}
		}
	}
	return nil
}

// nodeSteps change addresses and wait for changes of Node, of which there must be no other.
func nodeSteps(host *netlink.Handle, s *LocalSet, a, services netlink.Link) error {
	for len(s.Changed()) > 0 {
		<-s.Changed()
	}
	parse := func(text string) *netlink.Addr {
		addr, _ := netlink.ParseAddr(text)
		return addr
	}
	for _, step := range []struct {
		what func() error
		want string // empty: no change
	}{
		{func() error { return host.AddrAdd(services, parse("10.96.0.1/32")) }, ""},
		{func() error { return host.AddrAdd(a, parse("fe80::7/64")) }, ""},
		{func() error { return host.AddrAdd(a, parse("203.0.113.7/32")) }, "[198.51.100.7 203.0.113.7]"},
		{func() error { return host.AddrAdd(services, parse("203.0.113.7/32")) }, ""},
		{func() error { return host.AddrDel(a, parse("203.0.113.7/32")) }, "[198.51.100.7]"},
	} {
		if err := step.what(); err != nil {
			return err
		}
		wait := 3 * time.Second
		if step.want == "" {
			wait = 4 * localGather
		}
		select {
		case <-s.Changed():
			if got := fmt.Sprint(s.Node()); got != step.want {
				return fmt.Errorf("Node is %s, want %q", got, step.want)
			}
		case <-time.After(wait):
			if step.want != "" {
				return fmt.Errorf("no change of Node: %v, want %s", s.Node(), step.want)
			}
		}
	}
	return nil
}

func TestLocalSet(t *testing.T) {
	inNamespace(t)
	host, err := netlink.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	a, b := bridge(t, "a"), bridge(t, "b")
	early, _ := netlink.ParseAddr("198.51.100.7/32")
	if err := host.AddrAdd(a, early); err != nil {
		t.Fatal(err)
	}
	services := bridge(t, "services")
	s, err := NewLocalSet("services")
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{"198.51.100.7": true, "::ffff:198.51.100.7": true, "127.0.0.53": true,
		"::1": true, "198.51.100.8": false, "fe80::7%a": false} {
		if got := s.Contains(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	stepped := make(chan error, 1)
	go func() {
		defer cancel()
		stepped <- errors.Join(steps(host, s, a, b), nodeSteps(host, s, a, services))
	}()
	if err := s.Run(ctx, func(err error) { t.Error(err) }); err != nil {
		t.Error(err)
	}
	if err := <-stepped; err != nil {
		t.Error(err)
	}
}

// An IPv6 address is the node's once the host knows that no other has it: no socket can be bound to it before.
func TestLocalSetWaitsForOtherHosts(t *testing.T) {
	inNamespace(t)
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there"}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"here", "there"} {
		end, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(end)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewLocalSet("")
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("fd00::7")
	beside(t, s.Run, func(host *netlink.Handle) error {
		asking := func() (bool, error) {
			all, err := host.AddrList(link, netlink.FAMILY_V6)
			for _, a := range all {
				if a.IP.String() == own.String() {
					return a.Flags&unix.IFA_F_TENTATIVE != 0, nil
				}
			}
			return false, errors.Join(err, errors.New("the address is not there"))
		}
		addr, _ := netlink.ParseAddr(own.String() + "/64")
		if err := host.AddrAdd(link, addr); err != nil {
			return err
		}
		if is, err := asking(); err != nil || !is {
			return fmt.Errorf("the kernel does not ask other hosts: %v", err)
		}
		if err := until(func() bool { return slices.Contains(s.Node(), own) }); err != nil {
			return err
		}
		if is, err := asking(); err != nil || is {
			return fmt.Errorf("Node has the address while other hosts are asked: %v, %v", is, err)
		}
		return nil
	})
}
