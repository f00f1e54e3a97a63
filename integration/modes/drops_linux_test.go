package modes

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/explain"
)

// receiveErrors is the kernel's count of datagrams that sockets of the node had no room for.
func receiveErrors(b *bed.Bed) uint64 {
	b.Helper()
	var names []string
	for line := range strings.Lines(b.On(b.Node, "cat", "/proc/net/snmp")) {
		fields := strings.Fields(line)
		if fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		n, err := strconv.ParseUint(fields[slices.Index(names, "RcvbufErrors")], 10, 64)
		b.Must(err)
		return n
	}
	b.Fatal("the kernel tells no figures of UDP")
	return 0
}

// Datagrams that come while portald does not read, and that its receive buffer has no room for, are counted as the
// kernel counts them, echoes among them, and who looks for them finds them.
func TestDropsOfAReceiveBuffer(t *testing.T) {
	const flood, size = 5000, 1000
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	c, err := b.Client.Dial(b.Context(), "udp", bed.HostPort(bed.IP4, 80))
	b.Must(err)
	b.Cleanup(func() { c.Close() })
	cart := func() (dropped, carried uint64) {
		all, err := d.Admin().Services(b.Context(), adminsocket.ServiceQuery{Services: []string{"shop/cart"}})
		b.Must(err)
		for _, s := range all {
			if s.Protocol == "udp" {
				return *s.ReceiveBufferErrors, *s.BytesUp / size
			}
			if s.ReceiveBufferErrors != nil {
				b.Errorf("%s has receive buffers of UDP", s.Name)
			}
		}
		return 0, 0
	}
	b.ServedBy(bed.IP4, bed.PodName(0))
	if dropped, carried := cart(); dropped != 0 || carried != 0 {
		b.Fatalf("%d dropped and %d carried before", dropped, carried)
	}
	d.Signal(syscall.SIGSTOP)
	for range flood {
		_, err := c.Write(make([]byte, size))
		b.Must(err)
	}
	d.Signal(syscall.SIGCONT)
	var dropped, carried uint64
	b.Eventually("what the kernel dropped to be counted, and what it kept to be carried", func() bool {
		dropped, carried = cart()
		return dropped > 0 && dropped == receiveErrors(b) && carried >= flood/50
	})
	// Not their sum: of a datagram that was carried, the echo may be dropped.
	if dropped > flood || carried > flood {
		b.Errorf("%d dropped, %d carried", dropped, carried)
	}
	const series = `portald_udp_receive_buffer_errors_total{protocol="udp",service="shop/cart:talk"}`
	b.Eventually(series+" to be what the kernel counted", func() bool {
		return uint64(d.Metric(series)) == receiveErrors(b)
	})
	b.Eventually("a line of the log", func() bool {
		return strings.Contains(d.Log.String(), "found the receive buffer full")
	})
	e := explainOf(d, "shop/cart:talk", "")
	e.verdict(explain.Doubt, "portald does not read as fast as they come")
	e.has("Frontends", "a receive buffer of portald was full")
}
