package splice

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/proxy/service"
)

// later serves at an address from some time on.
func later(t *testing.T, at netip.AddrPort, after time.Duration) {
	timer := time.AfterFunc(after, func() {
		ln, err := net.Listen("tcp", at.String())
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
				go func() {
					echo(c.(*net.TCPConn))
					c.Close()
				}()
			}
		}()
	})
	t.Cleanup(func() { timer.Stop() })
}

// The only endpoint starts again: a client that came meanwhile waits for it, and sees no error.
func TestEndpointThatStartsAgain(t *testing.T) {
	at := refusing(t)
	r := newRig(t, Options{})
	_, front := r.open(t, service.TCP, "127.0.0.1", at)
	later(t, at, time.Second)
	c := dialTCP(t, front)
	c.Write([]byte("x"))
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "x" {
		t.Fatalf("got %q, %v", got, err)
	}
	rec := r.record(t)
	if rec.Outcome != OutcomeOK || len(rec.Attempts) != 2 || rec.Attempts[0].Times < 4 || rec.Attempts[1].Times != 1 || rec.Endpoint.Addr != at {
		t.Errorf("record %+v", rec)
	}
}

// An endpoint that comes in place of those that refuse is dialled at once, by all who wait.
func TestEndpointInPlaceOfThoseThatRefuse(t *testing.T) {
	const clients = 8
	dead, live := refusing(t), serveTCP(t, "127.0.0.1", echo)
	list := &ring{list: []netip.AddrPort{dead}}
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{10 * time.Second, 20 * time.Second}}})
	f, at := r.openWith(t, list, dead)
	var conns []*net.TCPConn
	for range clients {
		conns = append(conns, dialTCP(t, at))
	}
	time.Sleep(1500 * time.Millisecond) // pauses are some 400 ms by now
	changed := time.Now()
	list.set(live)
	f.Retarget(viewOf(at, service.TCP, []netip.AddrPort{live}))
	for _, c := range conns {
		c.CloseWrite()
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		rec := r.record(t)
		if took := rec.Start.Add(rec.Connect).Sub(changed); rec.Outcome != OutcomeOK || rec.Endpoint.Pod == "" || took > 200*time.Millisecond {
			t.Errorf("reached %v after the change: %+v", took, rec)
		}
	}
	if n := f.awaiting(); n != 0 {
		t.Errorf("%d connections are said to wait", n)
	}
}

// Nobody answers at all: it ends after about the time that dials may take.
func TestNobodyEver(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{300 * time.Millisecond, 500 * time.Millisecond}}})
	_, at := r.open(t, service.TCP, "127.0.0.1", refusing(t), refusing(t), refusing(t))
	wantReset(t, at)
	rec := r.record(t)
	if rec.Outcome != OutcomeDialFailed || rec.Duration < 800*time.Millisecond || rec.Duration > 3*time.Second || len(rec.Attempts) != 3 {
		t.Errorf("record %+v", rec)
	}
}

// A client that leaves while its connection waits for an endpoint ends that.
func TestClientLeavesBetweenDials(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{20 * time.Second, 20 * time.Second}}})
	f, at := r.open(t, service.TCP, "127.0.0.1", refusing(t))
	c := dialTCP(t, at)
	eventually(t, func() bool { return f.awaiting() == 1 }, "the connection waits")
	c.SetLinger(0)
	c.Close()
	if rec := r.record(t); rec.Outcome != OutcomeClientReset || rec.ClosedBy != Client {
		t.Errorf("record %+v", rec)
	}
	if n := f.awaiting(); n != 0 {
		t.Errorf("%d connections are said to wait", n)
	}
}

// Without retries a refusal is the end.
func TestNoRetries(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{10 * time.Second}}})
	_, at := r.open(t, service.TCP, "127.0.0.1", refusing(t))
	wantReset(t, at)
	if rec := r.record(t); rec.Outcome != OutcomeDialFailed || len(rec.Attempts) != 1 || rec.Attempts[0].Times != 1 {
		t.Errorf("record %+v", rec)
	}
}

// awaiting counts the connections that wait for another round of dials.
func (f *Front) awaiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting)
}
