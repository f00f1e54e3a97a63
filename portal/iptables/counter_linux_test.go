package iptables

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

// Packets that conntrack finds invalid are dropped on their way through the node, and counted.
func TestInvalidDropped(t *testing.T) {
	eachVariant(t, func(s *site) {
		s.Pod("pod1", prefixes("10.244.0.2/24", "fd00:244::2/64"), prefixes("10.244.0.1/24", "fd00:244::1/64"))
		count := func() (n uint64) {
			s.Node.Must(func() (err error) {
				var drops bool
				n, drops, err = s.Writer.(*Writer).InvalidDropped(t.Context())
				if !drops {
					t.Error("nothing drops invalid packets")
				}
				return err
			})
			return n
		}
		if _, drops, err := s.Writer.(*Writer).InvalidDropped(t.Context()); drops || err != nil {
			t.Errorf("without portals that spread: %v, %v", drops, err)
		}
		to := portal.Spread{Pool: &portal.Pool{Cluster: []portal.Endpoint{
			{Addr: netip.MustParseAddrPort("10.244.0.2:8080")},
		}}}
		at := service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.9:80"), Protocol: inet.TCP}
		owner := service.PortName{Name: "far", Protocol: inet.TCP}
		s.Write(append(portaltest.SitePortals(), portal.Portal{Frontend: at, Owner: owner, Target: to}))
		if n := count(); n != 0 {
			t.Fatalf("%d packets at first", n)
		}
		const sent = 3
		s.Client.Must(func() error {
			conn, err := net.ListenPacket("ip4:tcp", portaltest.ClientV4)
			if err != nil {
				return err
			}
			defer conn.Close()
			for range sent { // SYN and RST at once
				segment := []byte{0x30, 0x39, 0x1f, 0x90, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x06, 1, 0, 0, 0, 0, 0}
				if _, err := conn.WriteTo(segment, &net.IPAddr{IP: netip.MustParseAddr("10.244.0.2").AsSlice()}); err != nil {
					return err
				}
			}
			return nil
		})
		for deadline := time.Now().Add(5 * time.Second); count() < sent && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
		if n := count(); n != sent {
			t.Errorf("%d packets were counted of %d", n, sent)
		}
	})
}
