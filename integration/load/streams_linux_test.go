package load

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// answering runs Answer here until the test ends, and returns what stops it and tells of its connections.
func answering(t *testing.T) (at netip.AddrPort, tell io.Writer, ends func() []StreamEnd) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at = netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	in, out := io.Pipe()
	done := make(chan []StreamEnd, 1)
	go func() {
		all, err := Answer(t.Context(), at, in)
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		done <- all
	}()
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c, err := net.Dial("tcp", at.String()); err == nil {
			c.Close()
			break
		}
	}
	return at, out, func() []StreamEnd {
		out.Close()
		return <-done
	}
}

// runStreams runs Streams for a while.
func runStreams(t *testing.T, c Streams, server io.Writer) *StreamsResult {
	t.Helper()
	in, out := io.Pipe()
	go func() {
		time.Sleep(200 * time.Millisecond)
		_, _ = io.WriteString(out, "one\n")
		time.Sleep(700 * time.Millisecond)
		_, _ = io.WriteString(server, "stop\n")
		_, _ = io.WriteString(out, "stop\n")
	}()
	c.Every = 50 * time.Millisecond
	r, err := c.Run(t.Context(), in, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStreamsAreWhole(t *testing.T) {
	at, server, ends := answering(t)
	r := runStreams(t, Streams{To: []netip.AddrPort{at}, Each: 4, Rate: 200, Sessions: 3}, server)
	there := map[uint32]StreamEnd{}
	for _, e := range ends() {
		there[e.ID] = e
	}
	if len(r.Streams) != 20 || len(there) != 20 {
		t.Errorf("%d connections here, %d there", len(r.Streams), len(there))
	}
	for _, e := range r.Streams {
		o := there[e.ID]
		if e.Failed != "" || o.Failed != "" || e.Out != o.In || e.In != o.Out || e.In+e.Out == 0 {
			t.Errorf("%s: %+v here, %+v there", e.Kind, e, o)
		}
		if e.Kind == Slow && max(e.Out, e.In) < 10<<10 {
			t.Errorf("slow carried %d and %d", e.Out, e.In)
		}
	}
	one := r.Totals[1]
	if one.Name != "one" || one.Asked.Count < 30 || one.Longest.Count != 4 || one.Connected.Count < 50 ||
		one.Heard.Count < 20 || one.Asked.P50 <= 0 || one.Asked.Max < one.Asked.P99 {
		t.Errorf("%s", one)
	}
	made := 0
	for _, n := range r.Clients {
		made += n
	}
	bad := int64(0)
	for _, s := range r.Totals {
		made -= int(s.Connected.Count)
		bad += s.Refused + s.Reset + s.TimedOut + s.Broken + s.Lost + s.Doubled + s.Misplaced
	}
	if made != 0 || bad != 0 || len(r.Sessions) != 3 {
		t.Errorf("%d new connections not counted, %d failures, %s", made, bad, r.Failed)
	}
}

// Data lost, doubled, refused or reset on the way is found.
func TestBrokenStreamsAreFound(t *testing.T) {
	for name, spoil := range map[string]func(piece []byte) []byte{
		"a byte is lost":      func(b []byte) []byte { return b[:len(b)-1] },
		"a piece is doubled":  func(b []byte) []byte { return append(b[:len(b):len(b)], b...) },
		"a byte is different": func(b []byte) []byte { b[len(b)-1]++; return b },
		"reset":               func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, server, ends := answering(t)
			r := runStreams(t, Streams{To: []netip.AddrPort{spoiling(t, at, spoil)}, Each: 2}, server)
			there, failed := map[uint32]StreamEnd{}, map[Kind]bool{}
			for _, e := range ends() {
				there[e.ID] = e
			}
			for _, e := range r.Streams {
				if e.Failed != "" || e.In != there[e.ID].Out {
					failed[e.Kind] = true
				}
			}
			if !failed[Ask] || !failed[Pour] {
				t.Errorf("failed: %v", failed)
			}
		})
	}
	nobody := netip.MustParseAddrPort("127.0.0.1:1")
	r := runStreams(t, Streams{To: []netip.AddrPort{nobody}, Rate: 100, Sessions: 1}, io.Discard)
	if s := r.Totals[1]; s.Refused < 20 || s.Lost < 5 || s.Connected.Count+s.Heard.Count != 0 {
		t.Errorf("nobody: %s", s)
	}
}

// spoiling passes connections on. The server's data on one is spoiled from the fourth piece on.
func spoiling(t *testing.T, to netip.AddrPort, spoil func([]byte) []byte) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { spoilt(ctx, c.(*net.TCPConn), to, spoil) })
		}
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

func spoilt(ctx context.Context, c *net.TCPConn, to netip.AddrPort, spoil func([]byte) []byte) {
	defer c.Close()
	o, err := net.Dial("tcp", to.String())
	if err != nil {
		return
	}
	defer o.Close()
	defer context.AfterFunc(ctx, func() { c.Close(); o.Close() })()
	go func() {
		_, _ = io.Copy(o, c)
		_ = o.(*net.TCPConn).CloseWrite()
	}()
	buf := make([]byte, 4096)
	for n := 0; ; n++ {
		k, err := o.Read(buf)
		if err != nil {
			if strings.Contains(err.Error(), "EOF") {
				_ = c.CloseWrite()
			}
			return
		}
		b := buf[:k]
		if n >= 3 {
			b = spoil(b)
		}
		if b == nil {
			_ = c.SetLinger(0)
			return
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}
