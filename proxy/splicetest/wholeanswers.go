package splicetest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/record"
)

func wholeAnswerScenarios() []scenario {
	return []scenario{
		{name: "SmallAnswers", run: smallAnswers},
		{name: "WholeAnswers", run: wholeAnswers, needs: Delivers},
	}
}

// smallAnswers: what fits into the window of any client arrives before the reset behind it, also where the kernel does
// not tell when it has.
func smallAnswers(t *trial) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1000)
	d := t.start(timeouts(20_000))
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) { parting{}.part(c, data) }))
	for range 50 {
		c := dialTCP(t, f.at)
		c.Write([]byte("??"))
		if got, err := io.ReadAll(c); !bytes.Equal(got, data) || err != nil && !isReset(err) {
			t.Errorf("%d bytes of %d came, or others, and then %v", len(got), len(data), err)
		}
		c.Close() // where a reset is seen as an end
		d.record()
	}
}

// parting has a peer send, and close although it has not read all that it was sent: its kernel sends a reset behind
// these bytes.
type parting struct {
	up     bool          // it is the client's
	waits  bool          // it closes once all have left its kernel, which would drop the rest
	talks  bool          // the other peer goes on sending
	late   time.Duration // the other peer begins to read so late
	window int           // its receive buffer, in bytes; 0: the default
}

// wholeAnswers: of bytes that are followed by a reset the other side gets as many, and as often all, as if the two were
// connected directly. Bytes before the reset are never followed by a FIN.
func wholeAnswers(t *trial) {
	any := net.JoinHostPort(loopback, "0")
	here := &ground{
		listen: func(l *net.ListenConfig) (net.Listener, error) { return l.Listen(t.Context(), "tcp", any) },
		dial:   func(d *net.Dialer, to string) (net.Conn, error) { return d.Dial("tcp", to) },
		front:  func(d *dataPath, at netip.AddrPort) netip.AddrPort { return d.tcp(at).at },
	}
	t.partings(here, parting{waits: true}, anySize...)
	t.partings(here, parting{waits: true, talks: true}, 100_000, 3_000_000)
	t.partings(here, parting{}, 10_000, 60_000, 90_000, 100_000, 110_000) // of more, it is a race how much has left
}

var anySize = []int{10_000, 100_000, 110_000, 1_000_000, 3_000_000}

// pattern is the source of all that is sent, made once: the race detector's account of memory costs more than the
// bytes.
var pattern = bytes.Repeat([]byte("0123456789abcde\n"), 3_000_000/16)

// ground is the place of the two peers and of the data path between them.
type ground struct {
	listen func(*net.ListenConfig) (net.Listener, error)
	dial   func(d *net.Dialer, to string) (net.Conn, error)
	front  func(d *dataPath, endpoint netip.AddrPort) netip.AddrPort
}

// partings compares partings of these sizes, of either side, with readers of all kinds.
func (t *trial) partings(g *ground, p parting, sizes ...int) {
	for _, p.up = range []bool{false, true} {
		for _, p.late = range []time.Duration{0, 500 * time.Millisecond} {
			for _, p.window = range []int{0, 8 << 10} {
				name := fmt.Sprintf("client parts %t, waits %t, other talks %t, late %s, window %d", p.up, p.waits, p.talks, p.late,
					p.window)
				t.sub(name, func(t *trial) {
					t.Parallel()
					for _, n := range sizes {
						p.compare(t, g, n)
					}
				})
			}
		}
	}
}

// partings is the number of tries of each.
const partings = 10

// compare has the same happen directly and through the engine, in turn.
func (p parting) compare(t *trial, g *ground, n int) {
	t.Helper()
	data := pattern[:n]
	d := t.start(timeouts(20_000)) // no dial is given up
	direct, through := p.serve(t, g, data), p.serve(t, g, data)
	through.at = g.front(d, through.at)
	var tries sync.WaitGroup
	for range partings {
		try := func() {
			direct.try(t, p, data)
			through.try(t, p, data)
		}
		if p.late > 0 {
			tries.Go(try)
		} else {
			try()
		}
	}
	tries.Wait()
	want := record.OutcomeEndpointReset
	if p.up {
		want = record.OutcomeClientReset
	}
	var told int64
	for range partings {
		rec := d.record()
		if rec.Outcome != want {
			t.Errorf("record %+v", rec)
		}
		if told += rec.BytesToClient; p.up {
			told += rec.BytesToEndpoint - rec.BytesToClient
		}
	}
	whole, wantWhole := through.whole.Load(), direct.whole.Load()
	got, wantGot := through.got.Load(), direct.got.Load()
	line := fmt.Sprintf("%d bytes: %d of %d whole, %d directly; %d bytes in all, %d directly, %d by the records",
		n, whole, partings, wantWhole, got, wantGot, told)
	if 100*whole < 95*wantWhole || 100*got < 95*wantGot || got != told {
		t.Error(line)
	} else {
		t.Log(line)
	}
}

// partner is a way to the endpoint, and what came of it.
type partner struct {
	g          *ground
	at         netip.AddrPort
	seen       chan struct{} // an endpoint that reads has ended
	whole, got atomic.Int64
}

func (p parting) serve(t *trial, g *ground, data []byte) *partner {
	t.Helper()
	to := &partner{g: g, seen: make(chan struct{}, partings)}
	ln, err := g.listen(&net.ListenConfig{Control: receiveBuffer(p.window)})
	t.must(err)
	t.Cleanup(func() { ln.Close() })
	to.at = addrOf(ln.Addr())
	go accept(ln, func(c *net.TCPConn) {
		if p.up {
			to.read(t, p, c, data)
			to.seen <- struct{}{}
		} else {
			p.part(c, data)
		}
	})
	return to
}

func (to *partner) try(t *trial, p parting, data []byte) {
	conn, err := to.g.dial(&net.Dialer{Control: receiveBuffer(p.window)}, to.at.String())
	if err != nil {
		t.Error(err)
		return
	}
	c := conn.(*net.TCPConn)
	c.SetDeadline(time.Now().Add(longest))
	if p.up {
		p.part(c, data)
		c.Close()
		<-to.seen
	} else {
		to.read(t, p, c, data)
		c.Close()
	}
}

// part sends all after the first byte has come, and leaves the second unread.
func (p parting) part(c *net.TCPConn, data []byte) {
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return
	}
	c.Write(data)
	if p.waits {
		awaitSent(c)
	}
}

// read reads what the other sends until it parts.
func (to *partner) read(t *trial, p parting, c *net.TCPConn, data []byte) {
	c.SetDeadline(time.Now().Add(longest))
	c.Write([]byte("??"))
	if p.talks {
		go func() {
			for err := error(nil); err == nil; _, err = c.Write(pattern[:1000]) {
			}
		}()
	}
	time.Sleep(p.late)
	got, err := int64(0), error(nil)
	for buf := make([]byte, 16<<10); err == nil; {
		var n int
		n, err = c.Read(buf)
		if !bytes.HasPrefix(data[got:], buf[:n]) {
			t.Errorf("after %d bytes of %d others came", got, len(data))
			return
		}
		got += int64(n)
	}
	if told := isReset(err) || p.talks && err == io.EOF; !told { // a write was told of the reset
		t.Errorf("%d bytes of %d came, and then %v", got, len(data), err)
	}
	to.got.Add(got)
	if got == int64(len(data)) {
		to.whole.Add(1)
	}
}
