package splice

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// lease is a State of one lease alone, which remembers what was reported.
type lease struct {
	endpoint netip.AddrPort

	mu       sync.Mutex
	dials    []error
	ends     []bool
	to, from int64
	wrong    bool // a negative time, or an end without a dial that worked
}

func (l *lease) Dialled(err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials = append(l.dials, err)
	l.wrong = l.wrong || took < 0
}

func (l *lease) Ended(ok bool, to, from int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, ok)
	l.to, l.from = to, from
	l.wrong = l.wrong || len(l.dials) == 0 || l.dials[0] != nil
}

// checkLeases is for the end: each lease was dialled once, and ended once if that worked.
func (r *ring) checkLeases(t testing.TB) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.leases {
		worked := len(l.dials) == 1 && l.dials[0] == nil
		if len(l.dials) != 1 || worked != (len(l.ends) == 1) || len(l.ends) > 1 || l.wrong {
			t.Errorf("lease of %s: dials %v, ends %v", l.endpoint, l.dials, l.ends)
		}
	}
}

// wantLeases checks how the dials of a ring's leases went, and which of those that worked ended well.
func (r *ring) wantLeases(t *testing.T, dials []error, ends ...bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.leases) != len(dials) {
		t.Fatalf("%d leases, want %d", len(r.leases), len(dials))
	}
	for i, l := range r.leases {
		if !errors.Is(l.dials[0], dials[i]) {
			t.Errorf("lease %d: the dial went %v, want %v", i, l.dials[0], dials[i])
		}
		if dials[i] == nil {
			if len(l.ends) != 1 || len(ends) == 0 || l.ends[0] != ends[0] {
				t.Errorf("lease %d: ended well: %v, want %v", i, l.ends, ends)
				continue
			}
			ends = ends[1:]
		}
	}
}

func TestLeaseOfAConnection(t *testing.T) {
	for _, tc := range []struct {
		name  string
		list  func(t *testing.T) []netip.AddrPort
		dials []error
		end   bool
	}{
		{"works", func(t *testing.T) []netip.AddrPort { return []netip.AddrPort{serveTCP(t, "127.0.0.1", echo)} }, []error{nil}, true},
		{"is refused first", func(t *testing.T) []netip.AddrPort {
			return []netip.AddrPort{refusing(t), serveTCP(t, "127.0.0.1", echo)}
		}, []error{unix.ECONNREFUSED, nil}, true},
		{"has no answer first", func(t *testing.T) []netip.AddrPort {
			return []netip.AddrPort{silent(t), serveTCP(t, "127.0.0.1", echo)}
		}, []error{errTimeout, nil}, true},
		{"is reset by the endpoint", func(t *testing.T) []netip.AddrPort {
			return []netip.AddrPort{serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
				io.ReadFull(c, make([]byte, 5))
				c.SetLinger(0)
			})}
		}, []error{nil}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, list := newRig(t, Options{}), &ring{list: tc.list(t)}
			_, at := r.openWith(t, list, list.list...)
			c := dialTCP(t, at)
			io.WriteString(c, "hello")
			c.CloseWrite()
			io.ReadAll(c)
			rec := r.record(t)
			list.wantLeases(t, tc.dials, tc.end)
			if l := list.leases[len(list.leases)-1]; l.to != rec.BytesToEndpoint || l.from != rec.BytesFromEndpoint || l.to != 5 {
				t.Errorf("%d bytes to and %d from the endpoint; record %+v", l.to, l.from, rec)
			}
		})
	}
}

// A dial that nobody waits for any more says nothing of the endpoint.
func TestLeaseIsGivenUp(t *testing.T) {
	r, list := newRig(t, Options{}), &ring{list: []netip.AddrPort{silent(t)}}
	_, at := r.openWith(t, list, list.list...)
	c := dialTCP(t, at)
	time.Sleep(2 * watchedAfter)
	c.SetLinger(0)
	c.Close()
	r.record(t)
	list.wantLeases(t, []error{context.Canceled})
}

// A session that an endpoint refuses has another lease of the next.
func TestLeaseOfASession(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{UDPIdle: 50 * time.Millisecond}})
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := pc.LocalAddr().(*net.UDPAddr).AddrPort()
	pc.Close()
	list := &ring{list: []netip.AddrPort{dead, serveUDP(t, "127.0.0.1")}}
	_, at := r.openAt(t, service.UDP, "127.0.0.1", list, list.list)
	c := dialUDP(t, at)
	c.Write([]byte("hello"))
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	r.record(t)
	list.wantLeases(t, []error{nil, nil}, false, true)
	if l := list.leases[1]; l.to != 5 || l.from != 5 {
		t.Errorf("%d bytes to and %d from the endpoint", l.to, l.from)
	}
}
