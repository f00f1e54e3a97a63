package splice

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// refusing is an address where nobody listens.
func refusing(t testing.TB) netip.AddrPort {
	t.Helper()
	return refusingAt(t, "127.0.0.1")
}

func refusingAt(t testing.TB, host string) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// silent is an address that does not answer: a listener whose queue is full drops what comes.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at := localAddr(fd)
	for range 2 { // the kernel takes one more than the backlog
		c, err := net.DialTimeout("tcp", at.String(), 200*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return at
}

// wantReset dials and expects a reset, be it that early that dialling sees it.
func wantReset(t testing.TB, at netip.AddrPort) {
	t.Helper()
	c, err := net.Dial("tcp", at.String())
	if err == nil {
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client sees %v, want a reset", err)
	}
}

func TestServerSpeaksFirst(t *testing.T) {
	r := newRig(t, Options{})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) { c.Write([]byte("220 hello")) }))
	got, err := io.ReadAll(dialTCP(t, at))
	if err != nil || string(got) != "220 hello" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// Whichever side ends its direction first, the other direction goes on until its own end.
func TestHalfClose(t *testing.T) {
	t.Run("client first", func(t *testing.T) {
		r := newRig(t, Options{})
		_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
			asked, _ := io.ReadAll(c)
			time.Sleep(50 * time.Millisecond)
			fmt.Fprintf(c, "answer to %s", asked)
		}))
		c := dialTCP(t, at)
		c.Write([]byte("question"))
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || string(got) != "answer to question" {
			t.Fatalf("got %q, %v", got, err)
		}
		if rec := r.record(t); rec.ClosedBy != Client || rec.Outcome != OutcomeOK {
			t.Errorf("record %+v", rec)
		}
	})
	t.Run("endpoint first", func(t *testing.T) {
		heard := make(chan string, 1)
		r := newRig(t, Options{})
		_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
			c.Write([]byte("banner"))
			c.CloseWrite()
			all, _ := io.ReadAll(c)
			heard <- string(all)
		}))
		c := dialTCP(t, at)
		if got, err := io.ReadAll(c); err != nil || string(got) != "banner" {
			t.Fatalf("got %q, %v", got, err)
		}
		c.Write([]byte("late words"))
		c.Close()
		if got := <-heard; got != "late words" {
			t.Fatalf("endpoint heard %q", got)
		}
		if rec := r.record(t); rec.ClosedBy != Endpoint || rec.How != FIN || rec.Outcome != OutcomeOK {
			t.Errorf("record %+v", rec)
		}
	})
}

func TestHalfCloseTimeout(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{HalfClose: 100 * time.Millisecond}})
	hold := make(chan struct{})
	defer close(hold)
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(*net.TCPConn) { <-hold }))
	c := dialTCP(t, at)
	c.CloseWrite()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client sees %v, want a reset", err)
	}
	rec := r.record(t)
	if rec.Outcome != OutcomeHalfClosed || rec.ClosedBy != Proxy || rec.How != Timeout || rec.Duration < 100*time.Millisecond {
		t.Errorf("record %+v", rec)
	}
}

// Bytes in the open direction keep a half-closed connection alive.
func TestHalfCloseTimeoutMoves(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{HalfClose: 150 * time.Millisecond}})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		for range 8 {
			c.Write([]byte("."))
			time.Sleep(50 * time.Millisecond)
		}
	}))
	c := dialTCP(t, at)
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || len(got) != 8 {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestIdleTimeout(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{Idle: 100 * time.Millisecond}})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	c := dialTCP(t, at)
	for range 4 {
		time.Sleep(50 * time.Millisecond)
		if _, err := c.Write([]byte(".")); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(c, make([]byte, 1))
	}
	c.Read(make([]byte, 1))
	if rec := r.record(t); rec.Outcome != OutcomeIdle || rec.How != Timeout || rec.BytesFromEndpoint != 4 {
		t.Errorf("record %+v", rec)
	}
}

// A reset of one side is a reset for the other.
func TestReset(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		seen := make(chan error, 1)
		r := newRig(t, Options{})
		_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
			io.ReadFull(c, make([]byte, 5))
			_, err := c.Read(make([]byte, 1))
			seen <- err
		}))
		c := dialTCP(t, at)
		c.Write([]byte("hello"))
		time.Sleep(20 * time.Millisecond)
		c.SetLinger(0)
		c.Close()
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("endpoint sees %v, want a reset", err)
		}
		if rec := r.record(t); rec.ClosedBy != Client || rec.How != Reset || rec.Outcome != OutcomeClientReset {
			t.Errorf("record %+v", rec)
		}
	})
	t.Run("endpoint", func(t *testing.T) {
		r := newRig(t, Options{})
		_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
			io.ReadFull(c, make([]byte, 5))
			c.SetLinger(0)
		}))
		c := dialTCP(t, at)
		c.Write([]byte("hello"))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("client sees %v, want a reset", err)
		}
		if rec := r.record(t); rec.ClosedBy != Endpoint || rec.How != Reset || rec.Outcome != OutcomeEndpointReset {
			t.Errorf("record %+v", rec)
		}
	})
	t.Run("client after its FIN", func(t *testing.T) {
		r := newRig(t, Options{})
		hold := make(chan struct{})
		defer close(hold)
		_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(*net.TCPConn) { <-hold }))
		c := dialTCP(t, at)
		c.CloseWrite()
		time.Sleep(20 * time.Millisecond)
		c.SetLinger(0)
		c.Close()
		if rec := r.record(t); rec.Outcome != OutcomeClientReset {
			t.Errorf("record %+v", rec)
		}
	})
}

func TestRetryPastTheDead(t *testing.T) {
	dead, slow := refusing(t), silent(t)
	live := serveTCP(t, "127.0.0.1", echo)
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, time.Second}}})
	_, at := r.open(t, service.TCP, "127.0.0.1", dead, slow, live)
	c := dialTCP(t, at)
	c.Write([]byte("x"))
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "x" {
		t.Fatalf("got %q, %v", got, err)
	}
	rec := r.record(t)
	if len(rec.Attempts) != 3 || rec.Attempts[0].Endpoint != dead || rec.Attempts[1].Endpoint != slow || rec.Endpoint.Addr != live {
		t.Fatalf("attempts %+v", rec.Attempts)
	}
	if rec.Attempts[0].Err != "connection refused" || rec.Attempts[1].Err != "timeout" || rec.Attempts[2].Err != "" {
		t.Errorf("attempts %+v", rec.Attempts)
	}
	if took := rec.Attempts[1].Took; took < 95*time.Millisecond || took > 500*time.Millisecond {
		t.Errorf("the second attempt may take 100 ms, and took %s", took)
	}
	if rec.Endpoint.Pod == "" {
		t.Error("the record does not name the pod")
	}
}

// A lone endpoint that does not answer has another, longer try; one that refuses is dialled again for as long as that takes.
func TestLoneEndpoint(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}}})
	for _, c := range []struct {
		endpoint netip.AddrPort
		attempts int
	}{{silent(t), 2}, {refusing(t), 1}} {
		_, at := r.open(t, service.TCP, "127.0.0.1", c.endpoint)
		wantReset(t, at)
		rec := r.record(t)
		if rec.Outcome != OutcomeDialFailed || len(rec.Attempts) != c.attempts || rec.Connect >= 0 {
			t.Errorf("want %d attempts: %+v", c.attempts, rec)
		}
		if rec.Duration < 60*time.Millisecond || c.attempts == 1 && rec.Attempts[0].Times < 3 {
			t.Errorf("given up early: %+v", rec)
		}
	}
}

// Clients that wait for an endpoint that does not answer hold nobody up.
func TestNoHeadOfLineBlocking(t *testing.T) {
	r := newRigOf(t, 1, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{2 * time.Second}}})
	live := serveTCP(t, "127.0.0.1", echo)
	_, at := r.open(t, service.TCP, "127.0.0.1", silent(t), live)
	dialTCP(t, at) // waits two seconds
	begin := time.Now()
	c := dialTCP(t, at)
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil || time.Since(begin) > time.Second {
		t.Errorf("an answer came after %s, %v", time.Since(begin), err)
	}
}

func TestRefusals(t *testing.T) {
	live := serveTCP(t, "127.0.0.1", echo)
	other := service.Exposure{Frontend: service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.10:80"), Protocol: service.TCP}}
	for _, c := range []struct {
		name string
		view func(*View)
		want Outcome
	}{
		{"straight at the proxy port", func(v *View) { v.Exposures = []service.Exposure{other} }, OutcomeNotPortal},
		{"outside the source ranges", func(v *View) {
			v.Exposures[0].Kind = service.LoadBalancerIP
			v.Port.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}, OutcomeSourceRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{})
			f, at := r.open(t, service.TCP, "127.0.0.1", live)
			view := viewOf(at, service.TCP, []netip.AddrPort{live})
			c.view(view)
			f.Retarget(view)
			wantReset(t, at)
			if rec := r.record(t); rec.Outcome != c.want || rec.ClosedBy != Proxy || len(rec.Attempts) != 0 {
				t.Errorf("record %+v", rec)
			}
		})
	}
	t.Run("no endpoint", func(t *testing.T) {
		r := newRig(t, Options{})
		_, at := r.open(t, service.TCP, "127.0.0.1")
		wantReset(t, at)
		if rec := r.record(t); rec.Outcome != OutcomeNoEndpoint {
			t.Errorf("record %+v", rec)
		}
	})
}

// A NodePort frontend stands for every local address.
func TestNodePortFrontend(t *testing.T) {
	live := serveTCP(t, "127.0.0.1", echo)
	r := newRig(t, Options{})
	f, at := r.open(t, service.TCP, "127.0.0.1", live)
	view := viewOf(netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), service.TCP, []netip.AddrPort{live})
	view.Exposures[0].Kind = service.NodePort
	f.Retarget(view)
	c := dialTCP(t, at)
	c.CloseWrite()
	io.ReadAll(c)
	if rec := r.record(t); rec.Outcome != OutcomeOK || rec.Portal != service.NodePort || rec.OriginalDst != at {
		t.Errorf("record %+v", rec)
	}
}

// Connections outlive the listener that accepted them.
func TestOutlivesListener(t *testing.T) {
	r := newRig(t, Options{})
	f, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	c := dialTCP(t, at)
	c.Write([]byte("a"))
	io.ReadFull(c, make([]byte, 1))
	f.Close()
	deadline := time.Now().Add(5 * time.Second)
	for {
		other, err := net.Dial("tcp", at.String())
		if err != nil {
			break
		}
		other.Close()
		if time.Now().After(deadline) {
			t.Fatal("the listener still accepts")
		}
	}
	c.Write([]byte("b"))
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "b" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestDrainAndCut(t *testing.T) {
	r := newRig(t, Options{})
	f, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	ends, stays := dialTCP(t, at), dialTCP(t, at)
	for _, c := range []*net.TCPConn{ends, stays} {
		c.Write([]byte("a"))
		io.ReadFull(c, make([]byte, 1))
	}
	f.Close()
	time.AfterFunc(50*time.Millisecond, func() { ends.Close() })
	ctx, cancel := timeout(t, 300*time.Millisecond)
	defer cancel()
	if left := r.Drain(ctx); left != 1 {
		t.Errorf("%d connections left, want 1", left)
	}
	r.stop()
	if _, err := stays.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client sees %v, want a reset", err)
	}
	if first, second := r.record(t), r.record(t); first.Outcome != OutcomeOK || second.Outcome != OutcomeCut {
		t.Errorf("outcomes %s, %s", first.Outcome, second.Outcome)
	}
}

// Long connections are spread evenly over the loops, however they were accepted.
func TestEvenLoops(t *testing.T) {
	r := newRigOf(t, 4, Options{})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	for range 32 {
		c := dialTCP(t, at)
		for range 2 * settledAfter {
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

// Round robin is exact when nothing else is going on.
func TestManyConnections(t *testing.T) {
	r := newRig(t, Options{})
	a, b := serveTCP(t, "127.0.0.1", echo), serveTCP(t, "127.0.0.1", echo)
	_, at := r.open(t, service.TCP, "127.0.0.1", a, b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				c := dialTCP(t, at)
				c.Write([]byte("x"))
				c.CloseWrite()
				if got, err := io.ReadAll(c); err != nil || string(got) != "x" {
					t.Errorf("got %q, %v", got, err)
				}
				c.Close()
			}
		})
	}
	wg.Wait()
	count := map[netip.AddrPort]int{}
	ids := map[uint64]bool{}
	for range 400 {
		rec := r.record(t)
		count[rec.Endpoint.Addr]++
		ids[rec.ID] = true
	}
	if count[a] != 200 || count[b] != 200 || len(ids) != 400 {
		t.Errorf("%v, %d ids", count, len(ids))
	}
}
