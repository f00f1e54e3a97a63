package portaltest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
)

// podPort is where pods answer.
const podPort = 8080

// Addrs are one address of each family.
type Addrs struct{ V4, V6 netip.Addr }

func addrs(v4, family string) Addrs {
	return Addrs{netip.MustParseAddr(v4), netip.MustParseAddr(family)}
}

// Of is the address of one family.
func (a Addrs) Of(family inet.Family) netip.Addr {
	if family == inet.IPv6 {
		return a.V6
	}
	return a.V4
}

// Party is somebody who dials, and with Serve also answers.
type Party struct {
	*netnstest.Namespace
	Name    string
	Addrs   Addrs
	Gateway Addrs // of the node, as a pod sees it: whom a masqueraded client looks like to that pod
}

// Parties are the client and the node.
func (s *Site) Parties() (client, node *Party) {
	return &Party{Namespace: s.Client, Name: "client", Addrs: addrs(ClientV4, ClientV6)},
		&Party{Namespace: s.Node, Name: "node", Addrs: addrs(NodeV4, NodeV6)}
}

// AddPod makes a pod with addresses of PodSources behind a device of the node; number is from 1 to 254. It answers.
func (s *Site) AddPod(name, device string, number int) *Party {
	s.Helper()
	p := &Party{Name: name,
		Addrs:   addrs(fmt.Sprintf("10.244.%d.2", number), fmt.Sprintf("fd00:244:%d::2", number)),
		Gateway: addrs(fmt.Sprintf("10.244.%d.1", number), fmt.Sprintf("fd00:244:%d::1", number)),
	}
	p.Namespace = s.Pod(device, p.Addrs.prefixes(), p.Gateway.prefixes())
	p.Serve(s.TB, podPort)
	return p
}

// PodSources are the addresses that pods of AddPod have.
func PodSources() []netip.Prefix { return prefixes("10.244.0.0/16", "fd00:244::/32") }

func (a Addrs) prefixes() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(a.V4, 24), netip.PrefixFrom(a.V6, 64)}
}

// Serve answers each line, by TCP and UDP and at both addresses, with the party's name and the client that it saw.
func (p *Party) Serve(t testing.TB, port uint16) {
	t.Helper()
	for _, addr := range []netip.Addr{p.Addrs.V4, p.Addrs.V6} {
		p.Must(func() error { return p.serve(t, netip.AddrPortFrom(addr, port)) })
	}
}

func (p *Party) serve(t testing.TB, at netip.AddrPort) error {
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		ln.Close()
		return err
	}
	var ended sync.WaitGroup
	ended.Go(func() { p.accept(ln) })
	ended.Go(func() { p.datagrams(conn) })
	t.Cleanup(func() {
		ln.Close()
		conn.Close()
		ended.Wait()
	})
	return nil
}

func (p *Party) accept(ln *net.TCPListener) {
	for {
		conn, err := ln.AcceptTCP()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			from := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				io.WriteString(conn, p.says(from))
			}
		}()
	}
}

func (p *Party) datagrams(conn *net.UDPConn) {
	buf := make([]byte, 64)
	for {
		_, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		conn.WriteToUDPAddrPort([]byte(p.says(from)), from)
	}
}

func (p *Party) says(from netip.AddrPort) string {
	return fmt.Sprintf("%s %s\n", p.Name, from.Addr().Unmap())
}
