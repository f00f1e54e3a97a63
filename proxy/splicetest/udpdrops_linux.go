package splicetest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func udpDropScenarios() []scenario {
	return []scenario{{name: "UDPDrops", run: udpDrops, needs: Drops}}
}

// udpDrops: what clients and endpoints send while the engine has other work is carried later, as far as the receive
// buffers have room, and the rest is counted as the kernel counts it. A busy kernel loses others before they get there.
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
	t.eventually("what the kernel dropped to be counted, and the rest to be carried", func() bool {
		up, lostUp := udpSocketAt(t, f.at.Port())
		down, lostDown := udpSocketAt(t, addrOf(end.session).Port())
		if up > 0 || down > 0 || lostUp == 0 || lostDown == 0 || lost.Load() != lostUp+lostDown {
			return false
		}
		all := d.Snapshot()
		i := slices.IndexFunc(all, func(l record.Live) bool { return l.Client == addrOf(c.LocalAddr()) })
		carriedUp, carriedDown := all[i].BytesFromClient/size, all[i].BytesFromEndpoint/size
		if carriedUp+lostUp > 1+flood || carriedDown+lostDown > flood {
			t.Errorf("%d and %d were carried of %d, and %d and %d dropped", carriedUp, carriedDown, flood, lostUp, lostDown)
		}
		return carriedUp > 1 && carriedDown > 0
	})
}

// udpSocketAt returns how many bytes wait in the UDP socket of a port, and how many datagrams it had no room for.
func udpSocketAt(t *trial, port uint16) (waiting, drops int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/udp")
	t.must(err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 13 || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
			continue
		}
		_, queued, _ := strings.Cut(fields[4], ":")
		waiting, err = strconv.ParseInt(queued, 16, 64)
		t.must(err)
		drops, err = strconv.ParseInt(fields[12], 10, 64)
		t.must(err)
	}
	return waiting, drops
}
