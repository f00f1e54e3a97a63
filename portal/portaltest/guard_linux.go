package portaltest

import (
	"context"
	"net/netip"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
)

// HostPort is a proxy port at which a server of the host listens, and no listener of the daemon.
const HostPort = ProxyPort + 1

// guardsOpenPorts: direct connections to a listener of the daemon are refused, and a server of the host at another
// port of the range is reached.
func guardsOpenPorts(s *Site) {
	pod := s.Pod("pod1", prefixes("10.244.0.2/24", "fd00:244::2/64"), prefixes("10.244.0.1/24", "fd00:244::1/64"))
	everywhere := []string{NodeV4, NodeV6, "127.0.0.1", "::1"}
	for _, host := range everywhere {
		s.Node.Must(func() error { return Echo(s.TB, host, HostPort) })
	}
	from := map[string]*netnstest.Namespace{"the client": s.Client, "a pod": pod, "the node": s.Node}
	expect := func(port uint16, want string) {
		s.Helper()
		for who, ns := range from {
			for _, host := range everywhere {
				if at := netip.AddrPortFrom(netip.MustParseAddr(host), port); ns == s.Node || !at.Addr().IsLoopback() {
					s.Expect(ns, who, "tcp", at.String(), want)
					s.Expect(ns, who, "udp", at.String(), want)
				}
			}
		}
	}
	expect(ProxyPort, Refused)
	expect(HostPort, Answered)
	s.Expect(s.Client, "the client", "tcp", "10.96.0.1:80", Answered)

	s.guard(false) // another program may use a closed port
	expect(ProxyPort, Answered)
	expect(HostPort, Answered)
	s.guard(true)
	expect(ProxyPort, Refused)
	s.Write(nil) // a listener is guarded without portals too
	expect(ProxyPort, Refused)
	expect(HostPort, Answered)
}

// guardsByRanges: neighbours and gaps, more than a chain has rules for.
func guardsByRanges(s *Site) {
	const first = FirstPort + 1000
	open := map[portal.ProxyPort]bool{}
	for port := range uint16(600) {
		if port%2 == 0 || port < 100 {
			for p := range Guarded(true) {
				p.Port = first + port
				open[p] = true
			}
		}
	}
	s.Node.Must(func() error {
		s.Writer.Guard(open)
		return s.Writer.Update(context.Background(), nil)
	})
	for port, want := range map[uint16]string{
		first - 1: Answered, first: Refused, first + 99: Refused, first + 101: Answered, first + 102: Refused,
		first + 598: Refused, first + 599: Answered,
	} {
		for _, host := range []string{NodeV4, NodeV6} {
			s.Node.Must(func() error { return Echo(s.TB, host, int(port)) })
			at := netip.AddrPortFrom(netip.MustParseAddr(host), port).String()
			s.Expect(s.Client, "the client", "tcp", at, want)
			s.Expect(s.Client, "the client", "udp", at, want)
		}
	}
}

// guard opens or closes ProxyPort.
func (s *Site) guard(open bool) {
	s.Helper()
	s.Node.Must(func() error {
		s.Writer.Guard(Guarded(open))
		return s.Writer.Update(context.Background(), nil)
	})
}
