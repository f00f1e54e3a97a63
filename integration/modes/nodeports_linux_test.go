package modes

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// Addresses that a node gets while portald runs.
const (
	early4, early6 = "203.0.113.9", "fd00:203::9"
	late4, late6   = "203.0.113.10", "fd00:203::10"
)

// nodePortBed is a node where what is served at node ports is looked at: NodePorts, and the health checks of Services.
type nodePortBed struct {
	*bed.Bed
}

func newNodePortBed(b *bed.Bed) nodePortBed {
	b.ServePods(0)
	for _, a := range []string{early4, late4} {
		b.On(b.Client, "ip", "route", "add", a, "via", b.Node.IPv4.String())
	}
	for _, a := range []string{early6, late6} {
		b.On(b.Client, "ip", "-6", "route", "add", a, "via", b.Node.IPv6.String())
	}
	return nodePortBed{b}
}

// checkedCart is a Service with a NodePort and a health check at the port after it.
func (b nodePortBed) checkedCart(name, ip string, nodePort int) string {
	s := b.Simple(name, ip, 0)
	s.Kind, s.IPs = "LoadBalancer", []string{ip, "fd00:10:96::" + ip[strings.LastIndex(ip, ".")+1:]}
	s.Ports = []bed.Port{bed.NewPort("http", "TCP", 80, nodePort, bed.PodPort)}
	return strings.Replace(s.String(), "spec:\n", fmt.Sprintf("spec:\n  externalTrafficPolicy: Local\n  "+
		"healthCheckNodePort: %d\n", nodePort+1), 1)
}

// start starts portald with these nodePortAddresses, and else as the mode says. No audit finds what was not followed.
func (b nodePortBed) start(manifests string, m bed.Mode, addresses string) *bed.Daemon {
	b.Helper()
	args := slices.DeleteFunc(slices.Clone(m.Args), func(a string) bool {
		return strings.HasPrefix(a, "--nodeport-addresses=")
	})
	return b.Start(manifests, append(args, "--nodeport-addresses="+addresses, "--ipvs-sync-period=1h",
		"--iptables-sync-period=1h")...)
}

// address gives the node an address, or takes it away.
func (b nodePortBed) address(verb, addr string) {
	b.Helper()
	length := map[bool]string{true: "/128", false: "/32"}[strings.Contains(addr, ":")]
	b.On(b.Node, "ip", "address", verb, addr+length, "dev", "lo")
}

// served tells whether a host has a NodePort at an address, and whether it has the health check of its Service.
func (b nodePortBed) served(from *topology.Host, addr string, nodePort int) (port, health bool) {
	a, err := bed.AskWithin(bed.SilenceTimeout, from, "tcp", bed.HostPort(addr, nodePort))
	return err == nil && a.Pod == "pod0", checked(from, addr, nodePort+1)
}

// serves waits until addresses have the NodePort and the health check.
func (b nodePortBed) serves(nodePort int, addrs ...string) {
	b.Helper()
	for _, a := range addrs {
		b.Eventually(fmt.Sprintf("%d and its health check at %s", nodePort, a), func() bool {
			port, health := b.served(b.Client, a, nodePort)
			return port && health
		})
	}
}

// listeners are where somebody listens at a port, on the node. The address :: may have both families.
func (b nodePortBed) listeners(port int) (out []string) {
	b.Helper()
	const listen = "0A"
	for line := range strings.Lines(b.On(b.Node, "cat", "/proc/self/net/tcp", "/proc/self/net/tcp6")) {
		fields := strings.Fields(line)
		if text, at, ok := strings.Cut(fields[1], ":"); ok && at == fmt.Sprintf("%04X", port) && fields[3] == listen {
			words, err := hex.DecodeString(text)
			b.Must(err)
			for i := 0; i < len(words); i += 4 { // each of this machine's byte order
				binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
			}
			addr, _ := netip.AddrFromSlice(words)
			out = append(out, addr.String())
		}
	}
	slices.Sort(out)
	return out
}

// listensAt waits until somebody listens at these addresses of a port, and at no others.
func (b nodePortBed) listensAt(port int, addrs ...string) {
	b.Helper()
	slices.Sort(addrs)
	b.Eventually(fmt.Sprint("listeners at ", addrs, " alone"), func() bool {
		return slices.Equal(b.listeners(port), addrs)
	})
}

// Where nodePortAddresses are CIDRs, NodePorts and health checks of Services are at the addresses that the node has of
// them, as these come and go: nowhere while it has none.
func TestNodePortAddressesComeAndGo(t *testing.T) {
	bed.EachMode(t, func(plain *bed.Bed, m bed.Mode) {
		b := newNodePortBed(plain)
		const old, fresh = 30100, 30200
		first := b.checkedCart("first", "10.96.0.11", old)
		own4, own6 := b.Node.IPv4.String(), b.Node.IPv6.String()
		d := b.start(first, m, "203.0.113.0/24,fd00:203::/64")
		b.listensAt(old + 1)
		for _, a := range []string{own4, own6} {
			if port, health := b.served(b.Client, a, old); port || health {
				b.Errorf("at %s, outside of nodePortAddresses: NodePort %v, health check %v", a, port, health)
			}
		}

		b.address("add", early4)
		b.address("add", early6)
		b.serves(old, early4, early6)
		b.listensAt(old+1, early4, early6)

		b.address("del", early4) // the node is renumbered
		b.address("del", early6)
		b.address("add", late4)
		b.address("add", late6)
		b.serves(old, late4, late6)
		b.listensAt(old+1, late4, late6)
		d.Apply(first + b.checkedCart("second", "10.96.0.12", fresh))
		b.serves(fresh, late4, late6)
		b.listensAt(fresh+1, late4, late6)
		for _, a := range []string{own4, own6} {
			if port, health := b.served(b.Client, a, fresh); port || health {
				b.Errorf("at %s, outside of nodePortAddresses: NodePort %v, health check %v", a, port, health)
			}
		}

		b.address("del", late4)
		b.address("del", late6)
		b.listensAt(old + 1)
		b.listensAt(fresh + 1)
		b.address("add", late4) // what was served there before
		b.serves(old, late4)
		b.serves(fresh, late4)
	})
}

// The primary addresses of a node have its NodePorts and health checks, and no others; a node that is renumbered has
// them at the new ones.
func TestPrimaryAddressesChange(t *testing.T) {
	bed.EachMode(t, func(plain *bed.Bed, m bed.Mode) {
		b := newNodePortBed(plain)
		const old, fresh = 30100, 30200
		node := func(addrs string) string {
			return "---\napiVersion: v1\nkind: Node\nmetadata: {name: here}\nstatus: {addresses: [" + addrs + "]}\n"
		}
		internal := func(v4, v6 string) string {
			return fmt.Sprintf("{type: InternalIP, address: %s}, {type: InternalIP, address: '%s'}", v4, v6)
		}
		b.address("add", early4)
		b.address("add", early6)
		first := b.checkedCart("first", "10.96.0.11", old)
		own4, own6 := b.Node.IPv4.String(), b.Node.IPv6.String()
		d := b.start(first+node(internal(own4, own6)), m, "primary")
		b.serves(old, own4, own6)
		b.listensAt(old+1, own4, own6)
		for _, a := range []string{early4, early6} {
			if port, health := b.served(b.Client, a, old); port || health {
				b.Errorf("at %s, which is not primary: NodePort %v, health check %v", a, port, health)
			}
		}
		second := b.checkedCart("second", "10.96.0.12", fresh)
		d.Apply(first + second + node(internal(early4, early6)))
		for _, port := range []int{old, fresh} {
			b.serves(port, early4, early6)
			b.listensAt(port+1, early4, early6)
		}
		d.Apply(first + second + node(internal(late4, late6))) // which the node does not have yet
		b.listensAt(old + 1)
		b.address("add", late4)
		b.address("add", late6)
		for _, port := range []int{old, fresh} {
			b.serves(port, late4, late6)
			b.listensAt(port+1, late4, late6)
		}
	})
}

// Each family has its own: all addresses of one, the loopback address of one.
func TestNodePortAddressesOfOneFamily(t *testing.T) {
	const port = 30100
	for _, c := range []struct {
		ranges string
		health []string        // where it listens
		served map[string]bool // NodePorts, for the node itself; "own" is its address
	}{
		{"127.0.0.0/8", []string{"127.0.0.1"},
			map[string]bool{"127.0.0.1": true, "::1": false, "own4": false, "own6": false}},
		{"::1/128", []string{"::1"}, map[string]bool{"127.0.0.1": false, "::1": true, "own4": false, "own6": false}},
		{"0.0.0.0/0", []string{"0.0.0.0"}, map[string]bool{"127.0.0.1": true, "::1": false, "own4": true, "own6": false}},
		{"::/0", []string{"::"}, map[string]bool{"127.0.0.1": false, "::1": true, "own4": false, "own6": true}},
		{"0.0.0.0/0,::/0", []string{"::"}, map[string]bool{"127.0.0.1": true, "::1": true, "own4": true, "own6": true}},
	} {
		t.Run(c.ranges, func(t *testing.T) {
			b := newNodePortBed(bed.New(t))
			b.Start(b.checkedCart("first", "10.96.0.11", port), "--nodeport-addresses="+c.ranges)
			b.listensAt(port+1, c.health...)
			for addr, want := range c.served {
				at := strings.NewReplacer("own4", b.Node.IPv4.String(), "own6", b.Node.IPv6.String()).Replace(addr)
				if got, health := b.served(b.Node, at, port); got != want || health != want {
					b.Errorf("at %s: NodePort %v, health check %v, want %v", at, got, health, want)
				}
			}
		})
	}
}

// A successor that is told other addresses has health checks there and nowhere else, whatever was passed on to it.
func TestNodePortAddressesAcrossTakeOvers(t *testing.T) {
	b := newNodePortBed(bed.New(t))
	const port = 30100
	own4, own6 := b.Node.IPv4.String(), b.Node.IPv6.String()
	first := b.Start(b.checkedCart("first", "10.96.0.11", port))
	b.listensAt(port+1, "::")
	last := first
	for _, step := range []struct {
		addresses string
		at        []string
	}{
		{"192.168.50.0/24", []string{own4}},
		{"203.0.113.0/24", nil},
		{"0.0.0.0/0,::/0", []string{"::"}},
		{"127.0.0.0/8," + own6 + "/128", []string{"127.0.0.1", own6}},
		{"all", []string{"::"}},
	} {
		before := last
		last = first.Succeed("--nodeport-addresses=" + step.addresses) // addresses of several flags are all served
		if code := before.Exit(); code != 0 {
			t.Fatalf("the predecessor ended with code %d", code)
		}
		b.listensAt(port+1, step.at...)
		for _, at := range []string{"127.0.0.1", own4, own6} {
			want := slices.Contains(step.at, at) || slices.Contains(step.at, "::")
			if _, health := b.served(b.Node, at, port); health != want {
				t.Errorf("%s: a health check at %s: %v, want %v", step.addresses, at, health, want)
			}
		}
	}
}
