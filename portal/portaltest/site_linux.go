package portaltest

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Site is a node and a client outside the cluster with a veth between them. The node forwards, and sends what it does
// not know to the client. An echo stands in for the daemon at ProxyPort.
type Site struct {
	testing.TB
	Client, Node *netnstest.Namespace
	Writer       portal.Writer
}

// The addresses of a Site.
const (
	ClientV4 = "192.0.2.2"
	NodeV4   = "192.0.2.1"
	ClientV6 = "fd00:2::2"
	NodeV6   = "fd00:2::1"
)

// NewSite makes a Site, in whose node open makes the Writer.
func NewSite(t testing.TB, open func() (portal.Writer, error)) *Site {
	t.Helper()
	s := &Site{TB: t, Client: netnstest.New(t), Node: netnstest.New(t)}
	netnstest.Link(s.Client, s.Node, "eth0", "eth0",
		[]string{ClientV4 + "/24", ClientV6 + "/64"}, []string{NodeV4 + "/24", NodeV6 + "/64"})
	s.Client.Must(func() error { return netnstest.RouteAll(NodeV4, NodeV6) })
	s.Node.Must(func() error {
		return errors.Join(netnstest.RouteAll(ClientV4, ClientV6),
			netnstest.Sysctl("net/ipv4/ip_forward", "1"), netnstest.Sysctl("net/ipv6/conf/all/forwarding", "1"),
			netnstest.Sysctl("net/ipv4/tcp_early_demux", "0")) // all Redirects lead to one port: platform.DisableTCPEarlyDemux
	})
	for _, host := range []string{NodeV4, NodeV6, "127.0.0.1", "::1"} {
		s.Node.Must(func() error { return Echo(t, host, ProxyPort) })
	}
	s.Node.Must(func() error {
		var err error
		s.Writer, err = open()
		return err
	})
	return s
}

// Pod is a namespace behind a device of the node, with everything else beyond it. The addresses are its own end and of
// the node's, one of each family.
func (s *Site) Pod(device string, own, node []netip.Prefix) *netnstest.Namespace {
	s.Helper()
	pod := netnstest.New(s.TB)
	netnstest.Link(pod, s.Node, "eth0", device, texts(own), texts(node))
	for _, gateway := range node {
		addr := gateway.Addr().String()
		pod.Must(func() error { return netnstest.RouteAll(addr) })
		s.Node.Must(func() error { return Echo(s.TB, addr, ProxyPort) })
	}
	return pod
}

func texts(prefixes []netip.Prefix) (out []string) {
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return out
}

// Write makes the node hold portals.
func (s *Site) Write(portals []portal.Portal) {
	s.Helper()
	s.Node.Must(func() error {
		s.Writer.Guard(Guarded(true))
		return s.Writer.Replace(context.Background(), portals)
	})
}

// UnlimitICMP is for tests with more UDP refusals than the kernel sends to one host in that time.
func (s *Site) UnlimitICMP() {
	s.Node.Must(func() error {
		return errors.Join(netnstest.Sysctl("net/ipv4/icmp_ratelimit", "0"), netnstest.Sysctl("net/ipv6/icmp/ratelimit", "0"))
	})
}

// Dials are the addresses to dial for SitePortals, up to the last two digits of the port.
func Dials() []string {
	return []string{
		"10.96.0.1:", "[fd00:96::1]:", "198.51.100.1:", "[fd00:51::1]:", NodeV4 + ":300", "[" + NodeV6 + "]:300",
	}
}

// SitePortals are one for each of Dials and each target, TCP and UDP: 80 is redirected to ProxyPort, 81 is refused,
// 82 is redirected for clients inside the cluster only, and 83 is dropped.
func SitePortals() []portal.Portal {
	var out []portal.Portal
	hosts := map[string]service.Kind{
		"10.96.0.1:": service.ClusterIP, "[fd00:96::1]:": service.ClusterIP,
		"198.51.100.1:": service.LoadBalancerIP, "[fd00:51::1]:": service.LoadBalancerIP,
		"0.0.0.0:300": service.NodePort, "[::]:300": service.NodePort,
	}
	for _, proto := range []inet.Protocol{inet.TCP, inet.UDP} {
		for addr, kind := range hosts {
			for port, target := range map[string]portal.Target{
				"80": portal.Redirect{Port: ProxyPort}, "81": portal.Reject{},
				"82": portal.Redirect{Port: ProxyPort, Inside: true}, "83": portal.Drop{},
			} {
				out = append(out, portal.Portal{
					Frontend: service.Frontend{Addr: netip.MustParseAddrPort(addr + port), Protocol: proto}, Kind: kind,
					Owner: service.PortName{Namespace: "shop", Name: "web", Protocol: proto}, Target: target,
				})
			}
		}
	}
	return out
}
