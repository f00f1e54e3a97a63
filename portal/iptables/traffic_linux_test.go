package iptables

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

// site is one whose portals this package writes, with one variant.
type site struct {
	*portaltest.Site
	variant string
}

const (
	clientV4 = portaltest.ClientV4
	nodeV4   = portaltest.NodeV4
	clientV6 = portaltest.ClientV6
	nodeV6   = portaltest.NodeV6
)

func newSite(t *testing.T, variant string) *site {
	s := portaltest.NewSite(t, func() (portal.Writer, error) { return New(t.Context(), testOptions(nil, variant)) })
	s.Write(portaltest.SitePortals())
	return &site{s, variant}
}

func (s *site) iptables(f family, args ...string) {
	s.Helper()
	s.Node.Must(func() error {
		_, err := platform.Run(context.Background(), f.commandName(s.variant, ""), args, nil)
		return err
	})
}

func eachVariant(t *testing.T, test func(s *site)) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) { test(newSite(t, variant)) })
	})
}

func TestTraffic(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			portaltest.Traffic(t, func(inside portal.LocalDetector) (portal.Writer, error) {
				o := testOptions(nil, variant)
				o.LocalDetector, o.Dials = portal.LocalDetector(inside), portal.DefaultDials
				return New(t.Context(), o)
			})
		})
	})
}

// The daemon's own port, another of its range where nobody listens, and node ports on loopback, which are the daemon's
// own listeners' business: whoever comes there straight is refused.
func TestGuard(t *testing.T) {
	eachVariant(t, func(s *site) {
		s.UnlimitICMP()
		for _, network := range []string{"tcp", "udp"} {
			for who, from := range map[string]*netnstest.Namespace{"the client": s.Client, "the node": s.Node} {
				for _, host := range []string{nodeV4, "[" + nodeV6 + "]"} {
					s.Expect(from, who, network, host+":20001", "refused")
					s.Expect(from, who, network, host+":20002", "refused")
				}
			}
			for _, loopback := range []string{"127.0.0.1:30080", "[::1]:30080", "127.0.0.1:30082", "127.0.0.1:20001"} {
				s.Expect(s.Node, "the node", network, loopback, "refused")
			}
		}
	})
}

// Each of many refusals is prompt, though the kernel limits ICMP errors to one host.
func TestRefusalsArePrompt(t *testing.T) {
	eachVariant(t, func(s *site) {
		start := time.Now()
		for range 50 {
			s.Expect(s.Client, "the client", "tcp", "10.96.0.1:81", "refused")
			s.Expect(s.Client, "the client", "tcp", "[fd00:96::1]:81", "refused")
		}
		if took := time.Since(start); took > 5*time.Second {
			s.Errorf("100 refusals took %s", took)
		}
	})
}

// A firewall that denies by default lets portals through, and still does what its own rules say.
func TestDefaultDenyInput(t *testing.T) {
	eachVariant(t, func(s *site) {
		for _, f := range []family{ipv4(), ipv6()} {
			s.iptables(f, "-P", "INPUT", "DROP")
			s.iptables(f, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
			s.iptables(f, "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT")
		}
		s.iptables(ipv6(), "-A", "INPUT", "-p", "icmpv6", "-j", "ACCEPT")
		for _, network := range []string{"tcp", "udp"} {
			for _, host := range []string{"10.96.0.1:80", "[fd00:96::1]:80", nodeV4 + ":30080"} {
				s.Expect(s.Client, "the client", network, host, "hello")
			}
		}
		s.Expect(s.Client, "the client", "tcp", nodeV4+":20001", "refused")
		s.Expect(s.Client, "the client", "tcp", nodeV4+":22", "timeout")
	})
}

// A client socket of the node may use a port of the daemon's range.
func TestGuardSparesAnswers(t *testing.T) {
	eachVariant(t, func(s *site) {
		for port, host := range map[int]string{20500: clientV4, 20501: clientV6} {
			s.Client.Must(func() error { return portaltest.Echo(s.TB, host, port) })
			if got := portaltest.Ask(s.Node, "tcp", net.JoinHostPort(host, fmt.Sprint(port)), port); got != "hello" {
				s.Errorf("the node asks %s from port %d: %s", host, port, got)
			}
		}
	})
}

// A frontend that moves between redirect and refusal answers at every moment.
func TestMoveUnderTraffic(t *testing.T) {
	eachVariant(t, func(s *site) {
		done := make(chan error)
		moving := portaltest.SitePortals()[0]
		moving.Frontend = front("10.96.0.9:80", inet.TCP)
		moving.Kind = service.ClusterIP
		moving.Target = portal.Reject{}
		s.Write(append(portaltest.SitePortals(), moving))
		go func() {
			done <- s.Node.Do(func() error {
				for i := range 30 {
					p := moving
					if i%2 == 0 {
						p.Target = portal.Redirect{Port: portaltest.ProxyPort}
					}
					if err := s.Writer.Update(context.Background(), []portal.Change{{Frontend: p.Frontend, Portal: &p}}); err != nil {
						return err
					}
				}
				return nil
			})
		}()
		seen := map[string]int{}
		for {
			select {
			case err := <-done:
				if err != nil {
					s.Fatal(err)
				}
				if seen["hello"] == 0 || seen["refused"] == 0 || len(seen) != 2 {
					s.Errorf("saw %v, want hello and refused alone", seen)
				}
				return
			default:
				seen[portaltest.Ask(s.Client, "tcp", "10.96.0.9:80", 0)]++
			}
		}
	})
}

// An interface without an address of its own is how some networks connect pods: REDIRECT knows no address there.
func TestUnnumberedInterface(t *testing.T) {
	eachVariant(t, func(s *site) {
		s.UnlimitICMP()
		pod := netnstest.New(s.TB)
		netnstest.Link(pod, s.Node, "eth0", "pod0", []string{"198.51.100.2/32", "fd00:3::2/128"}, nil)
		var mac net.HardwareAddr
		s.Node.Must(func() error {
			var err error
			mac, err = onLink("pod0", "198.51.100.2", "fd00:3::2")
			return err
		})
		pod.Must(func() error { return throughNeighbour("eth0", mac, "169.254.1.1", "fd00:3::1") })
		s.Logf("by REDIRECT, the pod asks 10.96.0.1:80: %s", portaltest.Ask(pod, "tcp", "10.96.0.1:80", 0))
		s.Node.Must(func() error {
			o := testOptions(nil, s.variant)
			o.ProxyAddresses = addresses(nodeV4, nodeV6)
			var err error
			s.Writer, err = New(t.Context(), o)
			return err
		})
		s.Write(portaltest.SitePortals())
		for _, network := range []string{"tcp", "udp"} {
			for _, host := range []string{"10.96.0.1:", "[fd00:96::1]:", nodeV4 + ":300", "[" + nodeV6 + "]:300"} {
				s.Expect(pod, "the pod", network, host+"80", "hello")
				s.Expect(pod, "the pod", network, host+"81", "refused")
				s.Expect(s.Node, "the node", network, host+"80", "hello")
			}
			s.Expect(pod, "the pod", network, nodeV4+":20001", "refused")
		}
	})
}

// onLink routes to hosts at the other end of a device, and returns the device's hardware address.
func onLink(device string, hosts ...string) (net.HardwareAddr, error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: netlink.NewIPNet(net.ParseIP(host)),
			Scope: netlink.SCOPE_LINK}
		if err := netlink.RouteAdd(route); err != nil {
			return nil, fmt.Errorf("route to %s: %w", host, err)
		}
	}
	return link.Attrs().HardwareAddr, nil
}

// throughNeighbour sends everything to gateways that nobody has to be asked for.
func throughNeighbour(device string, mac net.HardwareAddr, gateways ...string) error {
	if _, err := onLink(device, gateways...); err != nil {
		return err
	}
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	for _, gateway := range gateways {
		neighbour := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.ParseIP(gateway), HardwareAddr: mac,
			State: netlink.NUD_PERMANENT}
		if err := netlink.NeighSet(neighbour); err != nil {
			return fmt.Errorf("neighbour %s: %w", gateway, err)
		}
	}
	return netnstest.RouteAll(gateways...)
}
