package splicetest

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func udpDropScenarios() []scenario {
	return []scenario{{name: "UDPDrops", run: udpDrops, needs: Drops}}
}

// udpDrops: what clients and endpoints send while the engine has other work is carried later, as far as the receive
// buffers have room, and the rest is counted.
func udpDrops(t *trial) {
	const flood, size = 5000, 1000
	var lost atomic.Int64
	var busy atomic.Bool // the next client is a long time's work
	began, goOn := make(chan struct{}), make(chan struct{})
	d := t.start(splice.Options{
		Warn: func(err error) {
			if full, ok := errors.AsType[*splice.ReceiveBufferError](err); ok {
				lost.Add(int64(full.Datagrams))
			}
		},
		WhoIs: func(netip.Addr) (_ service.Workload, known bool) {
			if busy.CompareAndSwap(true, false) {
				close(began)
				<-goOn
			}
			return
		},
	})
	type endpoint struct {
		net.PacketConn
		session net.Addr
	}
	first := make(chan endpoint, 1)
	f := d.udp(serveUDP(t, loopback, func(pc net.PacketConn, _ string, from net.Addr) {
		select {
		case first <- endpoint{pc, from}:
		default:
		}
	}))
	data := make([]byte, size)
	c := dialUDP(t, f.at)
	c.Write(data)
	end := <-first
	busy.Store(true)
	dialUDP(t, f.at).Write(nil)
	<-began
	for range flood {
		if _, err := c.Write(data); err != nil {
			t.Fatal(err)
		}
		if _, err := end.WriteTo(data, end.session); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	var l record.Live
	t.eventually("each datagram to be carried or counted", func() bool {
		for _, l = range d.Snapshot() {
			if l.Client == addrOf(c.LocalAddr()) {
				break
			}
		}
		return (l.BytesFromClient+l.BytesFromEndpoint)/size+lost.Load() == 1+2*flood
	})
	for _, carried := range []int64{l.BytesFromClient / size, l.BytesFromEndpoint / size} {
		if carried == 0 || carried >= flood {
			t.Errorf("%d of %d were carried, and %d lost of both directions", carried, flood, lost.Load())
		}
	}
}
