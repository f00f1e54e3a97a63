package modes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

const (
	other4, other6 = "10.96.0.11", "fd00:10:96::11"
	taken4, taken6 = "10.96.0.12", "fd00:10:96::12"
)

// Clients that dial before there are rules get through with their next packet: conntrack's entry of their first packet,
// which translates nothing, is deleted once the rules are there.
func TestClientsComeFirst(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0, 1)
		c := &early{Bed: b, within: giveUp}
		c.track()
		other, cart, taken := inside(b, "other", other4, other6), b.Cart(0, 1), inside(b, "taken", taken4, taken6)

		c.dial("before portald starts", bed.HostPort(other4, 80), bed.HostPort(other6, 80))
		d := b.Start(other, m.Args...)
		c.getThrough()

		c.dial("before the Service is there", bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80))
		d.Apply(other.String() + cart.String())
		c.getThrough()

		refuses := strings.Contains(m.Name, "nftables") || bed.InVM // ports that a Service does not have
		if !refuses {
			c.dial("before the Service has the port", bed.HostPort(bed.IP4, 81), bed.HostPort(bed.IP6, 81))
			cart.Ports = append(cart.Ports, bed.NewPort("more", "TCP", 81, 0, bed.PodPort),
				bed.NewPort("more-talk", "UDP", 81, 0, bed.PodPort))
			d.Apply(other.String() + cart.String())
			c.getThrough()
		}

		c.dial("before the load balancer has its address",
			bed.HostPort(bed.Balancer4, 80), bed.HostPort(bed.Balancer6, 80))
		cart.Kind, cart.Balancer = "LoadBalancer", []string{bed.Balancer4, bed.Balancer6}
		d.Apply(other.String() + cart.String())
		c.getThrough()

		theirs := strings.Replace(taken.String(), "metadata:\n",
			"metadata:\n  labels: {service.kubernetes.io/service-proxy-name: others}\n", 1)
		d.Apply(cart.String() + theirs)
		c.dial("while the Service is another proxy's", bed.HostPort(taken4, 80), bed.HostPort(taken6, 80))
		d.Apply(cart.String() + taken.String())
		c.getThrough()
	})
}

// A successor serves clients that dialled, while its predecessor served the node, a Service that only it knows.
func TestClientsComeBeforeASuccessor(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0, 1)
		c := &early{Bed: b, within: giveUp}
		c.track()
		first := b.Start(inside(b, "other", other4, other6), m.Args...)
		c.dial("before the take-over", bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80))
		first.Succeed("--manifests", b.WriteManifest("more.yaml", b.Cart(0, 1)))
		c.getThrough()
	})
}

// Datagrams that the node itself refused, since their NodePort was not there yet, do not keep a client that goes on.
func TestDatagramsComeBeforeTheirNodePort(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0)
		c := &early{Bed: b, within: giveUp, refused: true}
		c.track()
		cart := b.Cart(0)
		d := b.Start(inside(b, cart.Name, bed.IP4, bed.IP6), m.Args...)
		c.dial("before the Service has a NodePort", bed.HostPort(b.Node.IPv4.String(), bed.NodePort),
			bed.HostPort(b.Node.IPv6.String(), bed.NodePort))
		d.Apply(cart)
		c.getThrough()
	})
}

// Rules alone, as kube-proxy writes them, do not help a client that dialled before: only one that dials afterwards.
func TestRulesAloneComeTooLate(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	c := &early{Bed: b, within: 6 * time.Second}
	c.track()
	to := bed.HostPort(bed.IP4, 80)
	c.dial("before there are rules", to)
	for _, chain := range []string{"PREROUTING", "OUTPUT"} {
		b.On(b.Node, "iptables", "-t", "nat", "-A", chain, "-p", "tcp", "-d", bed.IP4, "--dport", "80",
			"-j", "DNAT", "--to-destination", bed.HostPort(b.Net.Pod(0).IPv4.String(), bed.PodPort))
	}
	if _, err := bed.Ask(b.Client, "tcp", to); err != nil {
		t.Fatal(err)
	}
	for range c.dials {
		if err := <-c.results; err == nil {
			t.Error("a client that dialled before got through")
		}
	}
}

// inside is a Service like cart that has cluster IPs alone.
func inside(b *bed.Bed, name string, ips ...string) bed.Service {
	s := b.Cart(0, 1)
	s.Name, s.Kind, s.IPs = name, "ClusterIP", ips
	for i := range s.Ports {
		s.Ports[i].Node = 0
	}
	return s
}

// early is clients that dial too early.
type early struct {
	*bed.Bed
	refused bool // until there are rules: UDP alone, as a client of TCP gives up
	within  time.Duration
	what    string
	dials   int
	results chan error
}

// track has the node track connections, as one does that has any rule with a state.
func (c *early) track() {
	c.Helper()
	for _, command := range []string{"iptables", "ip6tables"} {
		c.On(c.Node, command, "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT")
	}
}

// giveUp is when clients give up: later than the seventh SYN, since a start of portald may take half a minute.
const giveUp = 140 * time.Second

// dial has clients outside, in a pod and on the node dial addresses, and waits until conntrack knows them.
func (c *early) dial(what string, addresses ...string) {
	c.Helper()
	c.what, c.dials, c.results = what, 0, make(chan error)
	tries := map[string]func(net.Conn) error{"tcp": answersTCP, "udp": c.answersUDP}
	if c.refused {
		delete(tries, "tcp")
	}
	for _, from := range []*topology.Host{c.Client, c.Net.Pod(0), c.Node} {
		for _, to := range addresses {
			for network, try := range tries {
				c.dials++
				go func() {
					began := time.Now()
					conn, err := bed.Dial(c.within, from, network, to)
					if err == nil {
						err = try(conn)
						conn.Close()
					}
					if err != nil {
						err = fmt.Errorf("%s to %s from %s: after %s: %w", network, to, from.Name, time.Since(began), err)
					}
					c.results <- err
				}()
			}
		}
	}
	c.Eventually("conntrack to know the clients "+what, func() bool { return c.known(addresses) == c.dials })
}

func answersTCP(conn net.Conn) error {
	_, err := bed.AskTCP(conn.(*net.TCPConn))
	return err
}

// answersUDP asks again and again from one port.
func (c *early) answersUDP(conn net.Conn) error {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			_, _ = io.WriteString(conn, bed.WhoAreYou) // who reads tells
			select {
			case <-ended:
				return
			case <-time.After(bed.VMTimeout(200 * time.Millisecond)):
			}
		}
	}()
	for {
		if _, err := conn.Read(make([]byte, 100)); !c.refused || !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
	}
}

// known counts the entries of flows to these addresses that nobody translates.
func (c *early) known(addresses []string) (n int) {
	c.Helper()
	wanted := map[netip.AddrPort]bool{}
	for _, a := range addresses {
		wanted[netip.MustParseAddrPort(a)] = true
	}
	c.Must(c.Node.Do(func() error {
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			if err != nil {
				return err
			}
			for _, f := range flows {
				to, _ := netip.AddrFromSlice(f.Forward.DstIP)
				if wanted[netip.AddrPortFrom(to.Unmap(), f.Forward.DstPort)] && f.Forward.DstIP.Equal(f.Reverse.SrcIP) {
					n++
				}
			}
		}
		return nil
	}))
	return n
}

// getThrough waits for the clients.
func (c *early) getThrough() {
	c.Helper()
	served := time.Now()
	for range c.dials {
		if err := <-c.results; err != nil {
			c.Errorf("%s: %v", c.what, err)
		}
	}
	c.Logf("%s: all clients are served %s after the rules are there", c.what, time.Since(served).Round(time.Millisecond))
}
