package nftables

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

func newSite(t *testing.T, o Options) *portaltest.Site {
	s := portaltest.NewSite(t, func() (portal.Writer, error) { return New(o) })
	s.UnlimitICMP()
	s.Write(portaltest.SitePortals())
	return s
}

// Connections to a proxy port that no portal redirected are refused: at a listener, at a port without one, and at node
// ports on loopback, which no rule redirects.
func TestGuard(t *testing.T) {
	s := newSite(t, testOptions())
	for _, network := range []string{"tcp", "udp"} {
		for who, from := range map[string]*netnstest.Namespace{"the client": s.Client, "the node": s.Node} {
			for _, host := range []string{portaltest.NodeV4, "[" + portaltest.NodeV6 + "]"} {
				s.Expect(from, who, network, host+":20001", portaltest.Refused)
				s.Expect(from, who, network, host+":20002", portaltest.Refused)
			}
		}
		for _, loopback := range []string{"127.0.0.1:30080", "[::1]:30080", "127.0.0.1:30082", "127.0.0.1:20001"} {
			s.Expect(s.Node, "the node", network, loopback, portaltest.Refused)
		}
	}
	// Answers to a client socket on a proxy port are not refused.
	for port, host := range map[int]string{20500: portaltest.ClientV4, 20501: portaltest.ClientV6} {
		s.Client.Must(func() error { return portaltest.Echo(t, host, 7) })
		if got := portaltest.Ask(s.Node, "tcp", net.JoinHostPort(host, "7"), port); got != portaltest.Answered {
			t.Errorf("from port %d: %s", port, got)
		}
	}
}

// Ports that a Service does not have are refused on its ClusterIP, but not on its external addresses. Packets for
// unused addresses in the service CIDRs are dropped.
func TestUndefinedPorts(t *testing.T) {
	o := testOptions()
	o.ServiceCIDRs = prefixes("10.96.0.0/16", "fd00:96::/112")
	s := newSite(t, o)
	for _, host := range []string{portaltest.ClientV4, portaltest.ClientV6} {
		s.Client.Must(func() error { return portaltest.Echo(t, host, 99) })
	}
	s.Client.Must(func() error { // who has the external addresses but for the node's portals
		return errors.Join(addAddress("lo", "198.51.100.1/32"), portaltest.Echo(t, "198.51.100.1", 99))
	})
	for _, network := range []string{"tcp", "udp"} {
		s.Expect(s.Node, "the node", network, "10.96.0.1:99", portaltest.Refused)
		s.Expect(s.Client, "the client", network, "10.96.0.1:99", portaltest.Refused)
		s.Expect(s.Client, "the client", network, "[fd00:96::1]:99", portaltest.Refused)
		s.Expect(s.Node, "the node", network, "198.51.100.1:99", portaltest.Answered)
		s.Expect(s.Client, "the client", network, "10.96.0.2:80", portaltest.Silence)
		s.Expect(s.Client, "the client", network, "[fd00:96::2]:80", portaltest.Silence)
	}
}

// Clients that began before there were portals are not refused: their packets are dropped until their conntrack entries
// are deleted, and then served, or refused where the Service has no such port.
func TestClientsOfBefore(t *testing.T) {
	s := portaltest.NewSite(t, func() (portal.Writer, error) { return New(testOptions()) })
	s.UnlimitICMP()
	s.Write(nil)
	ports := map[string]int{"10.96.0.1:80": 4000, "[fd00:96::1]:80": 4001, "10.96.0.1:99": 4002, "[fd00:96::1]:99": 4003}
	ask := func(when string, want func(to string) string) {
		t.Helper()
		var wg sync.WaitGroup
		for to, port := range ports {
			for _, network := range []string{"tcp", "udp"} {
				for who, from := range map[string]*netnstest.Namespace{"the client": s.Client, "the node": s.Node} {
					if network == "udp" && from == s.Node {
						continue // a kernel that drops one tells the sender
					}
					wg.Go(func() {
						if got := portaltest.Ask(from, network, to, port); got != want(to) {
							t.Errorf("%s: %s asks %s %s: %s, want %s", when, who, network, to, got, want(to))
						}
					})
				}
			}
		}
		wg.Wait()
	}
	silence := func(string) string { return portaltest.Silence }
	ask("before", silence)
	s.Write(portaltest.SitePortals())
	ask("while conntrack has the entries of before", silence)
	s.Node.Must(func() error {
		n, err := platform.DeleteFlows(t.Context(), inet.FlowQuery{Unreplied: true},
			func(inet.Flow) bool { return true })
		if err == nil && n != 3*len(ports) {
			err = fmt.Errorf("%d entries were deleted, want %d", n, 3*len(ports))
		}
		return err
	})
	ask("then", func(to string) string {
		if strings.HasSuffix(to, ":80") {
			return portaltest.Answered
		}
		return portaltest.Refused
	})
}

// Service CIDRs change while portals stand, and count from the next Replace on. Addresses in none of them are left
// alone.
func TestServiceCIDRsChange(t *testing.T) {
	s := newSite(t, testOptions())
	s.Client.Must(func() error {
		return errors.Join(addAddress("lo", "10.96.0.2/32"), portaltest.Echo(t, "10.96.0.2", 99))
	})
	w := s.Writer.(*Writer)
	for _, step := range []struct {
		cidrs   []netip.Prefix
		changed bool
		want    string
	}{
		{nil, false, portaltest.Answered},
		{prefixes("10.96.0.0/16", "fd00:96::/112"), true, portaltest.Silence},
		{prefixes("10.96.0.0/16", "fd00:96::/112"), false, portaltest.Silence},
		{prefixes("10.97.0.0/16"), true, portaltest.Answered},
	} {
		changed, err := w.SetServiceCIDRs(step.cidrs)
		if err != nil || changed != step.changed {
			t.Errorf("%v: changed %v, %v", step.cidrs, changed, err)
		}
		s.Write(portaltest.SitePortals())
		s.Expect(s.Node, "the node", "tcp", "10.96.0.2:99", step.want)
		s.Expect(s.Client, "the client", "udp", "10.96.0.1:99", portaltest.Refused)
		s.Node.Must(func() error { return w.Audit(t.Context()) })
	}
	if _, err := w.SetServiceCIDRs(prefixes("0.0.0.0/0")); err == nil || len(w.ranges.all()) != 1 {
		t.Errorf("a range of all addresses: %v, %v", err, w.ranges.all())
	}
}

func addAddress(device, text string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(text)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(link, addr)
}

// The daemon dials an endpoint from a client's own address, and receives the replies.
func TestTransparent(t *testing.T) {
	o := testOptions()
	divert := platform.DefaultDivert()
	o.Mark = divert.Mark
	s := newSite(t, o)
	pod := s.Pod("pod1", prefixes("10.244.0.2/24", "fd00:244::2/64"), prefixes("10.244.0.1/24", "fd00:244::1/64"))
	for _, host := range []string{"10.244.0.2", "fd00:244::2"} {
		pod.Must(func() error { return portaltest.Echo(t, host, 8080) })
	}
	if w := s.Writer.(*Writer); !w.Diverts(inet.IPv4) || !w.Diverts(inet.IPv6) {
		t.Error("replies are not diverted")
	}
	s.Node.Must(func() error { return errors.Join(divert.Add(inet.IPv4), divert.Add(inet.IPv6)) })
	for client, host := range map[string]string{portaltest.ClientV4: "10.244.0.2", portaltest.ClientV6: "fd00:244::2"} {
		endpoint := net.JoinHostPort(host, "8080")
		for _, network := range []string{"tcp", "udp"} {
			if err := s.Node.Do(func() error { return askAs(network, client, endpoint) }); err != nil {
				t.Errorf("%s from %s: %v", network, client, err)
			}
		}
	}
}

// askAs sends a request to an echo server from an address of another host.
func askAs(network, client, echo string) error {
	addr := netip.AddrPortFrom(netip.MustParseAddr(client), 0)
	dialer := net.Dialer{Timeout: time.Second, Control: setTransparent, LocalAddr: net.TCPAddrFromAddrPort(addr)}
	if network == "udp" {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(addr)
	}
	conn, err := dialer.Dial(network, echo)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprint(conn, "who am I?"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 64))
	return err
}

func setTransparent(network, _ string, raw syscall.RawConn) error {
	level, name := unix.SOL_IP, unix.IP_TRANSPARENT
	if strings.HasSuffix(network, "6") {
		level, name = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	var err error
	failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, name, 1) })
	return errors.Join(failed, err)
}
