package splicetest

import (
	"crypto/rand"
	"net"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func udpScenarios() []scenario {
	return []scenario{
		{name: "UDPEcho", run: udpEcho},
		{name: "UDPBursts", run: udpBursts},
		{name: "UDPSessions", run: udpSessions},
		{name: "UDPRepin", run: udpRepin},
		{name: "UDPRetry", run: udpRetry, needs: Refusals},
	}
}

// udpEcho carries datagrams of all sizes, and ends the session after its idle timeout.
func udpEcho(t *trial) {
	t.both(func(t *trial, host string) {
		d := t.start(splice.Options{Policy: shortUDPIdle})
		c := dialUDP(t, d.open(inet.UDP, host, echoDatagrams(t, host)).at)
		const headers4, headers6 = 20 + 8, 40 + 8
		largest := mostDatagram - 1 - headers4
		if netip.MustParseAddr(host).Is6() {
			largest = mostDatagram - 1 - headers6
		}
		for _, size := range []int{0, 1, 512, 9000, largest} {
			question := make([]byte, size)
			rand.Read(question)
			if got := ask(t, c, string(question)); got != string(question) {
				t.Fatalf("%d bytes: got %d", size, len(got))
			}
		}
		rec := d.record()
		if rec.Outcome != record.OutcomeOK || rec.CloseType != record.Timeout ||
			rec.BytesFromClient != rec.BytesFromEndpoint {
			t.Errorf("record %+v", rec)
		}
	})
}

// udpSessions: a client stays with its endpoint, another one goes to the next.
func udpSessions(t *trial) {
	d := t.start(splice.Options{})
	f := d.udp(named(t, "a"), named(t, "b"))
	one, two := dialUDP(t, f.at), dialUDP(t, f.at)
	for range 3 {
		wantAnswer(t, one, "x", "a x")
		wantAnswer(t, two, "y", "b y")
	}
}

// udpRepin: a session whose endpoint was removed picks again at its client's next datagram.
func udpRepin(t *trial) {
	d := t.start(splice.Options{})
	a, b := named(t, "a"), named(t, "b")
	f := d.udp(a, b)
	c := dialUDP(t, f.at)
	wantAnswer(t, c, "1", "a 1")
	f.lead(b)
	if rec := d.record(); rec.Outcome != record.OutcomeEndpointRemoved || rec.Endpoint.Addr != a {
		t.Errorf("record %+v", rec)
	}
	wantAnswer(t, c, "2", "b 2")
}

// udpRetry: an endpoint without a server is passed over, and the first datagram is not lost.
func udpRetry(t *trial) {
	d := t.start(splice.Options{Policy: shortUDPIdle})
	live := named(t, "live")
	wantAnswer(t, dialUDP(t, d.udp(t.refusing(), live).at), "hello", "live hello")
	rec := d.record()
	a := rec.Attempts
	if len(a) != 2 || !refusedIn(a[0]) || a[1].Err != "" || rec.Endpoint.Addr != live {
		t.Errorf("record %+v", rec)
	}
}

// answerOnce answers one datagram and closes.
func answerOnce(t *trial) netip.AddrPort {
	t.Helper()
	return serveUDP(t, loopback, func(pc net.PacketConn, d string, from net.Addr) {
		pc.WriteTo([]byte(d), from)
		pc.Close()
	})
}
