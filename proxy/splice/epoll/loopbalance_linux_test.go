package epoll

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// Uploads through one front do not delay the small exchanges of another: they carry a few loads meanwhile, and not one
// or two of each.
func TestSmallExchangesBesideUploads(t *testing.T) {
	const uploads, exchanges, most = 128, 30, 64 << 20
	r := newRigOf(t, 1, splice.Options{})
	var carried atomic.Int64
	sink := serveTCP(t, func(c *net.TCPConn) {
		buf := make([]byte, 256<<10)
		for {
			n, err := c.Read(buf)
			if carried.Add(int64(n)); err != nil {
				return
			}
		}
	})
	bulk := r.open(t, sink)
	small := r.open(t, serveTCP(t, echo))
	stop := uploadTo(t, bulk, uploads)
	defer stop()
	for carried.Load() < uploads<<20 {
		time.Sleep(time.Millisecond)
	}
	c := dialTCP(t, small)
	var meanwhile []int64
	for range exchanges {
		before := carried.Load()
		c.Write([]byte("x"))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		meanwhile = append(meanwhile, carried.Load()-before)
	}
	slices.Sort(meanwhile)
	if median := meanwhile[exchanges/2]; median > most {
		t.Errorf("an exchange waits for %d MB of uploads, want %d at the most", median>>20, most>>20)
	}
}

// Long connections are spread evenly over the loops, however they were accepted.
func TestEvenLoops(t *testing.T) {
	r := newRigOf(t, 4, splice.Options{})
	at := r.open(t, serveTCP(t, echo))
	for range 32 {
		c := dialTCP(t, at)
		for range 2 * longLivedAfter {
			c.Write([]byte("a"))
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, l := range r.loops {
		if n := l.load.Load(); n < 6 || n > 10 {
			t.Errorf("loop %d has %d of 32 connections", i, n)
		}
	}
}

// Bulk that stays is spread over the loops too, although it is always queued.
func TestEvenLoopsOfBulk(t *testing.T) {
	r := newRigOf(t, 2, splice.Options{})
	at := r.open(t, serveTCP(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) }))
	stop := uploadTo(t, at, 8)
	defer stop()
	eventually(t, func() bool { return r.loops[0].load.Load()+r.loops[1].load.Load() == 8 }, "eight streams are load")
	eventually(t, func() bool { return r.loops[0].load.Load() >= 3 && r.loops[1].load.Load() >= 3 },
		"they are spread evenly")
}

// uploadTo has n connections send as much as will go, until stop.
func uploadTo(t *testing.T, at netip.AddrPort, n int) (stop func()) {
	var wg sync.WaitGroup
	var conns []net.Conn
	for range n {
		c := dialTCP(t, at)
		conns = append(conns, c)
		c.SetDeadline(time.Time{})
		wg.Go(func() {
			data := make([]byte, 256<<10)
			for {
				if _, err := c.Write(data); err != nil {
					return
				}
			}
		})
	}
	return func() {
		for _, c := range conns {
			c.Close()
		}
		wg.Wait()
	}
}
