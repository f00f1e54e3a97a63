package daemon

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/proxy/adminsocket"
)

// An endpoint behind a path that loses packets both ways is shown with retransmissions and segments out of order, and
// the one beside it is not.
func TestLossIsShown(t *testing.T) {
	b := bed.New(t)
	echo := func(c *net.TCPConn) { _, _ = io.Copy(c, c) }
	for i := range 2 {
		b.Serve(b.Net.Pod(i), bed.PodPort, echo)
	}
	lossy := b.Net.Pod(1).IPv4.String()
	lose := func(receiver *topology.Host, where string) { // a drop by the sender is no loss to its TCP
		b.On(receiver, "iptables", "-t", "mangle", "-A", "PREROUTING", where, lossy, "-p", "tcp", "-m", "length",
			"--length", "1000:", "-m", "statistic", "--mode", "nth", "--every", "20", "--packet", "0", "-j", "DROP")
	}
	lose(b.Net.Pod(1), "-d")
	lose(b.Node, "-s")
	d := b.Start(b.Cart(0, 1))
	payload := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	const connections = 4
	for range connections {
		c, err := bed.Dial(bed.LongestTest, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
		go func() {
			_, _ = c.Write(payload)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		if back, err := io.ReadAll(c); err != nil || !bytes.Equal(back, payload) {
			t.Errorf("%d bytes came back, %v", len(back), err)
		}
		_ = c.Close()
	}
	var good, bad adminsocket.Endpoint
	b.Eventually("the connections to be counted", func() bool { // the last of them too, for the metric below
		all := endpointsOf(d)
		good, bad = all["pod0"], all["pod1"]
		return good.RTTms != nil && bad.RTTms != nil && *good.Dials+*bad.Dials == connections
	})
	if *bad.Retransmits == 0 || *bad.OutOfOrder == 0 || *bad.RTTms <= 0 {
		t.Errorf("behind the loss: %d sent again, %d out of order, %f ms", *bad.Retransmits, *bad.OutOfOrder, *bad.RTTms)
	}
	// A kernel that moves a sender from one processor to the other may change the order of a few.
	if *good.OutOfOrder*10 > *bad.OutOfOrder || *good.Retransmits*10 > *bad.Retransmits {
		t.Errorf("beside it: %d sent again, %d out of order", *good.Retransmits, *good.OutOfOrder)
	}
	series := `portald_endpoint_retransmits_total{endpoint="` + bad.Address.String() +
		`",pod="shop/pod1",protocol="tcp",service="shop/cart:http"}`
	if n := d.Metric(series); n != float64(*bad.Retransmits) {
		t.Errorf("%s is %v, and the command shows %d", series, n, *bad.Retransmits)
	}
}
