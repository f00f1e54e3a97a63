package iptables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/proxy/service"
)

// site is a client and a node with a veth between them. The node forwards, and sends what it does not know to the
// client. An echo stands in for the daemon at proxyPort.
type site struct {
	*testing.T
	client, node *portaltest.Namespace
	variant      string
	writer       *Writer
}

const (
	proxyPort = 20001
	clientV4  = "192.0.2.2"
	nodeV4    = nodeAddress
	clientV6  = "fd00:2::2"
	nodeV6    = "fd00:2::1"
	answer    = 2 * time.Second // far more than any answer takes here
)

func newSite(t *testing.T, variant string) *site {
	s := &site{T: t, client: portaltest.New(t), node: portaltest.New(t), variant: variant}
	portaltest.Link(s.client, s.node, "eth0", "eth0", []string{clientV4 + "/24", clientV6 + "/64"}, []string{nodeV4 + "/24", nodeV6 + "/64"})
	s.client.Must(func() error { return routeAll(nodeV4, nodeV6) })
	s.node.Must(func() error {
		return errors.Join(routeAll(clientV4, clientV6),
			set("ipv4/ip_forward", "1"), set("ipv6/conf/all/forwarding", "1"))
	})
	for _, host := range []string{nodeV4, nodeV6, "127.0.0.1", "::1"} {
		s.node.Must(func() error { return echo(t, host, proxyPort) })
	}
	s.node.Must(func() error {
		var err error
		s.writer, err = New(testOptions(nil, variant))
		return err
	})
	s.write(s.portals())
	return s
}

// unlimitICMP is for tests that see more UDP refusals than the kernel would send one host in that time.
func (s *site) unlimitICMP() {
	s.node.Must(func() error { return errors.Join(set("ipv4/icmp_ratelimit", "0"), set("ipv6/icmp/ratelimit", "0")) })
}

func set(sysctl, value string) error { return os.WriteFile("/proc/sys/net/"+sysctl, []byte(value), 0) }

func routeAll(via ...string) error {
	for _, gateway := range via {
		if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
			return fmt.Errorf("route to %s: %w", gateway, err)
		}
	}
	return nil
}

// portals: port 80 is redirected, port 81 refused; so are node ports 30080 and 30081.
func (s *site) portals() []portal.Portal {
	var out []portal.Portal
	for _, proto := range []service.Protocol{service.TCP, service.UDP} {
		for addr, kind := range map[string]service.Kind{
			"10.96.0.1:": service.ClusterIP, "[fd00:96::1]:": service.ClusterIP,
			"0.0.0.0:300": service.NodePort, "[::]:300": service.NodePort,
		} {
			out = append(out,
				portal.Portal{Frontend: front(addr+"80", proto), Kind: kind, Owner: name("web", ""), Target: portal.Redirect{Port: proxyPort}},
				portal.Portal{Frontend: front(addr+"81", proto), Kind: kind, Owner: name("web", ""), Target: portal.Reject{}})
		}
	}
	return out
}

func (s *site) write(portals []portal.Portal) {
	s.Helper()
	s.node.Must(func() error { return s.writer.Replace(context.Background(), portals) })
}

func (s *site) iptables(f family, args ...string) {
	s.Helper()
	s.node.Must(func() error {
		_, err := platform.Run(context.Background(), f.commandName(s.variant, ""), args, nil)
		return err
	})
}

// echo answers TCP and UDP at an address of this namespace until the test ends.
func echo(t *testing.T, host string, port int) error {
	ip := net.ParseIP(host)
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip, Port: port})
	if err != nil {
		return err
	}
	t.Cleanup(func() { tcp.Close() })
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip, Port: port})
	if err != nil {
		return err
	}
	t.Cleanup(func() { udp.Close() })
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := udp.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				udp.WriteTo(buf[:n], from)
			}
		}
	}()
	return nil
}

// ask says "hello" to an address and returns what came of it: "hello", "refused", "timeout" or another error.
func ask(from *portaltest.Namespace, network, addr string, localPort int) string {
	var conn net.Conn
	err := from.Do(func() error {
		dialer := net.Dialer{Timeout: answer}
		if localPort != 0 {
			dialer.LocalAddr = &net.TCPAddr{Port: localPort}
		}
		var err error
		conn, err = dialer.Dial(network, addr)
		return err
	})
	if err != nil {
		return verdict(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(answer))
	if _, err := conn.Write([]byte("hello")); err != nil {
		return verdict(err)
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(conn, buf); err != nil {
		return verdict(err)
	}
	return string(buf)
}

func verdict(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EPERM): // a host's own datagrams get EPERM
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return err.Error()
}

func (s *site) expect(from *portaltest.Namespace, who, network, addr, want string) {
	s.Helper()
	if got := ask(from, network, addr, 0); got != want {
		s.Errorf("%s asks %s %s: %s, want %s", who, network, addr, got, want)
	}
}

func eachVariant(t *testing.T, test func(s *site)) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) { test(newSite(t, variant)) })
	})
}

func TestTrafficThroughPortals(t *testing.T) {
	eachVariant(t, func(s *site) {
		s.unlimitICMP()
		for _, network := range []string{"tcp", "udp"} {
			for _, from := range []struct {
				who string
				ns  *portaltest.Namespace
			}{{"the client", s.client}, {"the node", s.node}} {
				for _, host := range []string{"10.96.0.1:", "[fd00:96::1]:", nodeV4 + ":300", "[" + nodeV6 + "]:300"} {
					s.expect(from.ns, from.who, network, host+"80", "hello")
					s.expect(from.ns, from.who, network, host+"81", "refused")
				}
				// The daemon's own port, and another of its range where nobody listens.
				for _, host := range []string{nodeV4, "[" + nodeV6 + "]"} {
					s.expect(from.ns, from.who, network, host+":20001", "refused")
					s.expect(from.ns, from.who, network, host+":20002", "refused")
				}
			}
			// Node ports on loopback are the daemon's own listeners' business.
			s.expect(s.node, "the node", network, "127.0.0.1:30080", "refused")
			s.expect(s.node, "the node", network, "[::1]:30080", "refused")
			s.expect(s.node, "the node", network, "127.0.0.1:20001", "refused")
		}
	})
}

// Each of many refusals is prompt, though the kernel limits ICMP errors to one host.
func TestRefusalsArePrompt(t *testing.T) {
	eachVariant(t, func(s *site) {
		start := time.Now()
		for range 50 {
			s.expect(s.client, "the client", "tcp", "10.96.0.1:81", "refused")
			s.expect(s.client, "the client", "tcp", "[fd00:96::1]:81", "refused")
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
		}
		s.iptables(ipv6(), "-A", "INPUT", "-p", "icmpv6", "-j", "ACCEPT")
		for _, network := range []string{"tcp", "udp"} {
			for _, host := range []string{"10.96.0.1:80", "[fd00:96::1]:80", nodeV4 + ":30080"} {
				s.expect(s.client, "the client", network, host, "hello")
			}
		}
		s.expect(s.client, "the client", "tcp", nodeV4+":20001", "refused")
		s.expect(s.client, "the client", "tcp", nodeV4+":22", "timeout")
	})
}

// A client socket of the node may use a port of the daemon's range.
func TestGuardSparesAnswers(t *testing.T) {
	eachVariant(t, func(s *site) {
		for port, host := range map[int]string{20500: clientV4, 20501: clientV6} {
			s.client.Must(func() error { return echo(s.T, host, port) })
			if got := ask(s.node, "tcp", net.JoinHostPort(host, fmt.Sprint(port)), port); got != "hello" {
				s.Errorf("the node asks %s from port %d: %s", host, port, got)
			}
		}
	})
}

// A frontend that moves between redirect and refusal answers at every moment.
func TestMoveUnderTraffic(t *testing.T) {
	eachVariant(t, func(s *site) {
		done := make(chan error)
		moving := s.portals()[0]
		moving.Frontend = front("10.96.0.9:80", service.TCP)
		moving.Kind = service.ClusterIP
		moving.Target = portal.Reject{}
		s.write(append(s.portals(), moving))
		go func() {
			done <- s.node.Do(func() error {
				for i := range 30 {
					p := moving
					if i%2 == 0 {
						p.Target = portal.Redirect{Port: proxyPort}
					}
					if err := s.writer.Update(context.Background(), []portal.Change{{Frontend: p.Frontend, Portal: &p}}); err != nil {
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
				seen[ask(s.client, "tcp", "10.96.0.9:80", 0)]++
			}
		}
	})
}

// An interface without an address of its own is how some networks connect pods: REDIRECT knows no address there.
func TestUnnumberedInterface(t *testing.T) {
	eachVariant(t, func(s *site) {
		s.unlimitICMP()
		pod := portaltest.New(s.T)
		portaltest.Link(pod, s.node, "eth0", "pod0", []string{"198.51.100.2/32", "fd00:3::2/128"}, nil)
		var mac net.HardwareAddr
		s.node.Must(func() error {
			var err error
			mac, err = onLink("pod0", "198.51.100.2", "fd00:3::2")
			return err
		})
		pod.Must(func() error { return throughNeighbour("eth0", mac, "169.254.1.1", "fd00:3::1") })
		s.Logf("by REDIRECT, the pod asks 10.96.0.1:80: %s", ask(pod, "tcp", "10.96.0.1:80", 0))
		s.node.Must(func() error {
			o := testOptions(nil, s.variant)
			o.ProxyAddresses = addresses(nodeV4, nodeV6)
			var err error
			s.writer, err = New(o)
			return err
		})
		s.write(s.portals())
		for _, network := range []string{"tcp", "udp"} {
			for _, host := range []string{"10.96.0.1:", "[fd00:96::1]:", nodeV4 + ":300", "[" + nodeV6 + "]:300"} {
				s.expect(pod, "the pod", network, host+"80", "hello")
				s.expect(pod, "the pod", network, host+"81", "refused")
				s.expect(s.node, "the node", network, host+"80", "hello")
			}
			s.expect(pod, "the pod", network, nodeV4+":20001", "refused")
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
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: netlink.NewIPNet(net.ParseIP(host)), Scope: netlink.SCOPE_LINK}
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
		neighbour := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.ParseIP(gateway), HardwareAddr: mac, State: netlink.NUD_PERMANENT}
		if err := netlink.NeighSet(neighbour); err != nil {
			return fmt.Errorf("neighbour %s: %w", gateway, err)
		}
	}
	return routeAll(gateways...)
}
