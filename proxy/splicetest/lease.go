package splicetest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func leaseScenarios() []scenario {
	return []scenario{
		{name: "LeaseOfConnection", run: leaseOfConnection},
		{name: "LeaseGivenUp", run: leaseGivenUp},
		{name: "LeaseOfSession", run: leaseOfSession, needs: Refusals},
	}
}

// The ways of a lease, as outcome says them.
const (
	endedWell    = "connected, ended well"
	endedBadly   = "connected, ended badly"
	wasRefused   = "refused"
	wasTooSlow   = "timeout"
	wasCanceled  = "canceled"
	wasOvertaken = record.Overtaken
)

func (l *lease) outcome() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dial == nil && l.ok:
		return endedWell
	case l.dial == nil:
		return endedBadly
	case isRefused(l.dial):
		return wasRefused
	case errors.Is(l.dial, context.Canceled):
		return wasCanceled
	}
	return l.dial.Error()
}

// wantLeases expects these ways of a front's leases, in the order of their picks.
func wantLeases(t *trial, f *front, want ...string) {
	t.Helper()
	var got []string
	for _, l := range f.ring.given() {
		got = append(got, l.outcome())
	}
	if !slices.Equal(got, want) {
		t.Errorf("leases %q, want %q", got, want)
	}
}

// leaseOfConnection: a lease hears of its dial and, if that worked, of the end and what was carried.
func leaseOfConnection(t *trial) {
	live := echoServer(t)
	resetting := serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 5))
		awaitReader()
		c.SetLinger(0)
	})
	for name, c := range map[string]struct {
		endpoints []netip.AddrPort
		want      []string
	}{
		"Works":       {[]netip.AddrPort{live}, []string{endedWell}},
		"Refused":     {[]netip.AddrPort{t.refusing(), live}, []string{wasRefused, endedWell}},
		"NoAnswer":    {[]netip.AddrPort{silent(t), live}, []string{wasTooSlow, endedWell}},
		"EndpointRST": {[]netip.AddrPort{resetting}, []string{endedBadly}},
	} {
		t.sub(name, func(t *trial) { leasesAre(t, c.endpoints, c.want) })
	}
}

func leasesAre(t *trial, endpoints []netip.AddrPort, want []string) {
	d := t.start(timeouts(2000, 4000))
	f := d.tcp(endpoints...)
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	c.CloseWrite()
	io.ReadAll(c)
	rec := d.record()
	d.stop()
	wantLeases(t, f, want...)
	leases := f.ring.given()
	if l := leases[len(leases)-1]; l.answered != (rec.FirstByte >= 0) {
		t.Errorf("answered: %t; record %+v", l.answered, rec)
	}
}

// leaseGivenUp: a dial that the client does not wait for is no failure of the endpoint.
func leaseGivenUp(t *trial) {
	d := t.start(timeouts(longest / time.Millisecond))
	f := d.tcp(silent(t))
	c := dialTCP(t, f.at)
	t.eventually("the dial has begun", func() bool { return len(f.ring.given()) == 1 })
	awaitReader()
	reset(c)
	d.record()
	d.stop()
	wantLeases(t, f, wasCanceled)
}

// leaseOfSession: a session that an endpoint refuses has another lease of the next.
func leaseOfSession(t *trial) {
	d := t.start(splice.Options{})
	f := d.udp(t.refusing(), echoDatagrams(t, loopback))
	ask(t, dialUDP(t, f.at), "hello")
	d.stop()
	d.record()
	wantLeases(t, f, endedBadly, endedWell)
}
