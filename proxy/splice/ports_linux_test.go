package splice

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/proxy/service"
)

// few is a node that has the kernel's defaults but for its number of ports: ours and those the kernel chooses from.
const (
	fewFirst, fewLast = 12000, 12049
	hostPorts         = "40000 40049"
)

func fewPorts(t *testing.T, n *network) {
	n.node.Must(func() error {
		for name, want := range map[string]string{"tcp_tw_reuse": "2\n", "tcp_timestamps": "1\n"} {
			if got, err := os.ReadFile("/proc/sys/net/ipv4/" + name); err != nil || string(got) != want {
				return fmt.Errorf("%s is %q, not the default: %w", name, got, err)
			}
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte(hostPorts), 0)
	})
	n.client.Must(func() error { return os.WriteFile("/proc/sys/net/ipv4/tcp_tw_reuse", []byte("1"), 0) })
}

// ours is an engine on that node.
func ours(t *testing.T, n *network, opts Options) *rig {
	opts.SourcePorts = PortSpan{fewFirst, fewLast}
	return newRigIn(t, n.node, opts, nothing)
}

// tracked has the node track connections, translate what it sends, and let nothing in but what belongs to those it made and to listeners.
func tracked(n *network) {
	for _, command := range []string{"iptables", "ip6tables"} {
		n.run(n.node, command+" -t nat -A POSTROUTING -o pod0 -j MASQUERADE",
			command+" -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
			command+" -A INPUT -i pod0 -p tcp -j DROP")
	}
}

// serveShort answers each connection and closes when its client has.
func serveShort(t testing.TB, ns *portaltest.Namespace, at netip.Addr) netip.AddrPort {
	t.Helper()
	addr := netip.AddrPortFrom(at, 8080)
	ns.Must(func() error {
		ln, err := net.Listen("tcp", addr.String())
		if err == nil {
			t.Cleanup(func() { ln.Close() })
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						io.Copy(c, c)
					}()
				}
			}()
		}
		return err
	})
	return addr
}

// short makes connections one after the other that their client closes first, and waits for each to have ended.
func short(n *network, to netip.AddrPort, times int) error {
	return n.client.Do(func() error {
		for i := range times {
			if err := exchange(to); err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
		}
		return nil
	})
}

func exchange(to netip.AddrPort) error {
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.ReadAll(c)
	return err
}

// On a node with the kernel's defaults one endpoint is served far more short connections than there are ports, as the
// node and as the client, through masquerading and a firewall that lets only answers in; and the host has all its own.
func TestMoreConnectionsThanPorts(t *testing.T) {
	for name, policy := range map[string]service.Policy{"node": {}, "transparent": {ClientAddress: service.AddressTransparent}} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			n.leadBack()
			if name == "node" {
				tracked(n)
			}
			fewPorts(t, n)
			r := ours(t, n, Options{Policy: policy, Returns: comesBack, Trouble: func(err error) { t.Error(err) }})
			for i, family := range service.IPFamilies() {
				endpoint := serveShort(t, n.pod, podAddrs[i])
				port := r.expose(t, n.node, &service.Port{}, service.TCP, family, Pickers{&ring{list: []netip.AddrPort{endpoint}}})
				const times = 4 * (fewLast - fewFirst + 1)
				if err := short(n, netip.AddrPortFrom(towardClient[i], port), times); err != nil {
					t.Errorf("%s: %v", family, err)
				}
				for range times {
					if rec := r.record(t); rec.Outcome != OutcomeOK || len(rec.Attempts) != 1 {
						t.Fatalf("record %+v", rec)
					}
				}
				n.node.Must(func() error { // the host's own, to that endpoint
					for range 40 {
						if err := exchange(endpoint); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})
	}
}

// Servers of the host are let be, and can be started, wherever our connections are.
func TestPortsBesideServers(t *testing.T) {
	n := newNetwork(t)
	fewPorts(t, n)
	r := ours(t, n, Options{Trouble: func(err error) { t.Error(err) }})
	listen := func(addr netip.Addr, port uint16) {
		n.node.Must(func() error {
			ln, err := net.Listen("tcp", netip.AddrPortFrom(addr, port).String())
			if err == nil {
				t.Cleanup(func() { ln.Close() })
			}
			return err
		})
	}
	for port := uint16(fewFirst); port < fewLast-25; port++ {
		listen(netip.IPv4Unspecified(), port)
	}
	endpoint := serveShort(t, n.pod, podAddrs[0])
	port := r.expose(t, n.node, &service.Port{}, service.TCP, service.IPv4, Pickers{&ring{list: []netip.AddrPort{endpoint}}})
	to := netip.AddrPortFrom(towardClient[0], port)
	if err := short(n, to, 200); err != nil {
		t.Fatal(err)
	}
	n.client.Must(func() error { // open ones too
		for range 5 {
			c, err := net.Dial("tcp", to.String())
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
			c.Write([]byte("x"))
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				return err
			}
		}
		return nil
	})
	for port := uint16(fewLast - 25); port <= fewLast; port++ {
		listen(netip.IPv4Unspecified(), port)
	}
	if err := short(n, to, 20); err != nil { // from the kernel's ports: we have none left
		t.Error(err)
	}
}

// Connections that stay, more than we have ports, go on from the kernel's; and that they get few is said before there are
// none.
func TestPortsRunOut(t *testing.T) {
	n := newNetwork(t)
	fewPorts(t, n)
	var mu sync.Mutex
	var said []error
	r := ours(t, n, Options{Trouble: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, err)
	}})
	endpoint := serveShort(t, n.pod, podAddrs[0])
	port := r.expose(t, n.node, &service.Port{}, service.TCP, service.IPv4, Pickers{&ring{list: []netip.AddrPort{endpoint}}})
	served := 0
	n.client.Must(func() error {
		for {
			c, err := net.Dial("tcp", netip.AddrPortFrom(towardClient[0], port).String())
			if err != nil {
				return nil
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(10 * time.Second))
			c.Write([]byte("x"))
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				return nil
			}
			served++
		}
	})
	const both = 2 * (fewLast - fewFirst + 1)
	if served < both*9/10 || served > both {
		t.Errorf("%d connections were served from %d ports", served, both)
	}
	mu.Lock()
	defer mu.Unlock()
	var crowded *PortsError
	if len(said) == 0 || !errors.As(said[0], &crowded) || crowded.Endpoint != endpoint {
		t.Fatalf("first of all was said %v", said)
	}
	if !slices.ContainsFunc(said, func(err error) bool { return errors.Is(err, unix.EADDRNOTAVAIL) }) {
		t.Errorf("said %v", said)
	}
}
