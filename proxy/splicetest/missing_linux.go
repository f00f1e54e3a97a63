package splicetest

import (
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

func missingScenarios() []scenario {
	return []scenario{
		{name: "RecordOfMissingSegments", run: recordOfMissingSegments, needs: TCPInfo, scope: network},
		{name: "RecordOfSegmentsOutOfOrder", run: recordOfSegmentsOutOfOrder, needs: TCPInfo, scope: network},
	}
}

// recordOfMissingSegments: it is told that the large segments of an answer do not come, whose last one is small.
func recordOfMissingSegments(t *trial) {
	d, c := answersOf(t, 7000, "meta length > 1400 drop")
	conn := c.dial()
	t.eventually("a segment comes behind those that are lost", func() bool {
		all := d.Snapshot()
		d.ReadTCPInfo(t.Context(), all)
		return len(all) == 1 && all[0].EndpointTCP.MissingInBetween
	})
	reset(conn)
	rec := d.record()
	i := rec.EndpointTCP
	if !i.MissingInBetween || i.OutOfOrder == 0 || i.LargestReceived > 1400 || rec.ClientTCP.MissingInBetween {
		t.Errorf("client %+v, endpoint %+v", rec.ClientTCP, i)
	}
}

// recordOfSegmentsOutOfOrder: what was missing and came later is missing no more.
func recordOfSegmentsOutOfOrder(t *trial) {
	d, c := answersOf(t, 1<<20, "meta length > 500 numgen inc mod 10 == 0 drop")
	conn := c.dial()
	if n, err := io.Copy(io.Discard, conn); n != 1<<20 || err != nil {
		t.Errorf("%d bytes came: %v", n, err)
	}
	conn.Close()
	if i := d.record().EndpointTCP; i.MissingInBetween || i.OutOfOrder == 0 || i.LargestReceived < 1400 {
		t.Errorf("endpoint %+v", i)
	}
}

// lossyPod is a pod whose answers are lost in part.
type lossyPod struct {
	*cluster
	port uint16
}

// answersOf starts a pod that sends so many bytes to each client, of which the node loses what matches a rule.
func answersOf(t *trial, bytes int, lost string) (*dataPath, lossyPod) {
	c := newCluster(t)
	c.drop(c.node, "iif pod0 "+lost)
	at := netip.AddrPortFrom(podAddrs[inet.IPv4], 8080)
	c.pod.Must(func() error { return t.listen(at, func(s *net.TCPConn) { s.Write(make([]byte, bytes)) }) })
	d := t.start(withTCPInfo)
	return d, lossyPod{c, expose(d, service.Port{}, inet.TCP, inet.IPv4, toOne(at))}
}

func (a lossyPod) dial() (conn *net.TCPConn) {
	a.Helper()
	a.client.Must(func() (err error) {
		conn, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(towardClient[inet.IPv4], a.port)))
		return err
	})
	conn.SetDeadline(time.Now().Add(longest))
	a.Cleanup(func() { conn.Close() })
	return conn
}
