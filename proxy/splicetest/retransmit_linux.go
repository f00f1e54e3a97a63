package splicetest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
)

func retransmitScenarios() []scenario {
	return []scenario{{name: "RecordOfRetransmits", run: recordOfRetransmits, needs: TCPInfo, scope: network}}
}

// recordOfRetransmits: segments that are lost on the way to the endpoint are in the record, as retransmits of the
// endpoint's side alone.
func recordOfRetransmits(t *trial) {
	c := newCluster(t)
	c.dropEveryTenth(c.pod)
	at := netip.AddrPortFrom(podAddrs[inet.IPv4], 8080)
	c.pod.Must(func() error { return t.listen(at, func(s *net.TCPConn) { io.Copy(io.Discard, s) }) })
	d := t.start(withTCPInfo)
	port := expose(d, service.Port{}, inet.TCP, inet.IPv4, toOne(at))
	c.client.Must(func() error {
		conn, err := net.Dial("tcp", netip.AddrPortFrom(towardClient[inet.IPv4], port).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(longest))
		_, err = conn.Write(make([]byte, 1<<20))
		return err
	})
	rec := d.record()
	if rec.EndpointTCP.Retransmits == 0 || rec.ClientTCP.Retransmits != 0 {
		t.Errorf("client %+v, endpoint %+v", rec.ClientTCP, rec.EndpointTCP)
	}
	i := rec.EndpointTCP
	most := uint64(i.Retransmits) * uint64(i.MSS)
	if i.PathMTU != 1500 || i.RetransmitBytes == 0 || i.RetransmitBytes > most || int(i.SegmentsSent) < 1<<20/int(i.MSS) {
		t.Errorf("endpoint %+v", i)
	}
}

// dropEveryTenth loses segments with data on their way into a namespace.
func (c *cluster) dropEveryTenth(ns *netnstest.Namespace) {
	c.Helper()
	c.drop(ns, "meta length > 500 numgen inc mod 10 == 0 drop")
}

// drop loses what matches a rule on its way into a namespace.
func (c *cluster) drop(ns *netnstest.Namespace, rule string) {
	c.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		netnstest.Missing(c, "needs nft (Debian package nftables)")
	}
	ns.Must(func() error {
		cmd := exec.CommandContext(c.Context(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(`table ip lossy {
			chain in {
				type filter hook prerouting priority 0
				` + rule + `
			}
		}`)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("lose segments by nft: %w: %s", err, out)
		}
		return nil
	})
}
