package splicetest

import (
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func recordScenarios() []scenario {
	return []scenario{
		{name: "RecordNamesTheProxy", run: recordNamesTheProxy},
		{name: "RecordNamesTheProxyOfASession", run: recordNamesTheProxyOfASession},
		{name: "RecordNamesANewerEndpoint", run: recordNamesANewerEndpoint},
		{name: "RecordNamesAnEndpointThatIsKnownLate", run: recordNamesAnEndpointThatIsKnownLate},
		{name: "RecordHasTheError", run: recordHasTheError},
		{name: "RecordOfWhatWasDelivered", run: recordOfWhatWasDelivered, needs: Undelivered},
		{name: "UDPAttemptsHaveTheirOwnTime", run: udpAttemptsHaveTheirOwnTime, needs: Refusals},
	}
}

// recordNamesTheProxy: the record has our own address and port towards the endpoint, as the endpoint sees it, also of
// dials that failed.
func recordNamesTheProxy(t *trial) {
	t.both(func(t *trial, host string) {
		d := t.start(splice.Options{})
		var seen sync.Map // other processes of this host may come too: a server of theirs had this port before
		live := serveTCP(t, host, func(c *net.TCPConn) { seen.Store(addrOf(c.RemoteAddr()), true) })
		dead := t.refusingOf(host)
		c := dialTCP(t, d.open(inet.TCP, host, dead, live).at)
		c.CloseWrite()
		io.ReadAll(c)
		rec := d.record()
		if _, came := seen.Load(rec.Proxy()); !came {
			t.Errorf("the record says %s, the endpoint sees %v", rec.Proxy(), maps.Collect(seen.Range))
		}
		a := rec.Attempts[0]
		named := a.Proxy.Port() != 0 && a.Proxy.Addr().String() == host
		if a.Err == "" || !named && t.engine.Can&FailedPorts != 0 {
			t.Errorf("attempts %+v", rec.Attempts)
		}
	})
}

func recordNamesTheProxyOfASession(t *trial) {
	d := t.start(splice.Options{Policy: shortUDPIdle})
	seen := make(chan netip.AddrPort, 1)
	f := d.udp(serveUDP(t, loopback, func(_ net.PacketConn, _ string, from net.Addr) { seen <- addrOf(from) }))
	dialUDP(t, f.at).Write([]byte("x"))
	from := <-seen
	if rec := d.record(); rec.Proxy() != from || rec.BytesToEndpoint != 1 {
		t.Errorf("the endpoint sees %s; record %+v", from, rec)
	}
}

// recordNamesANewerEndpoint: an endpoint that was picked after the connection had begun is in its record by name.
func recordNamesANewerEndpoint(t *trial) {
	fresh := echoServer(t)
	d := t.start(timeouts(20_000, 20_000))
	f := d.tcp(t.refusing())
	c := dialTCP(t, f.at)
	t.eventually("its first endpoint has refused", func() bool { return f.ring.rounds() > 0 })
	f.lead(fresh)
	wantEcho(t, c, "")
	if rec := d.record(); rec.Endpoint.Addr != fresh || rec.Endpoint.Pod == "" {
		t.Errorf("record %+v", rec)
	}
}

// recordNamesAnEndpointThatIsKnownLate: one that was connected before the front knew more of it than its address.
func recordNamesAnEndpointThatIsKnownLate(t *trial) {
	late := echoServer(t)
	d := t.start(splice.Options{})
	f := d.tcp(late)
	f.know()
	c := dialTCP(t, f.at)
	exchange(t, c)
	f.know(late)
	wantEcho(t, c, "")
	if rec := d.record(); rec.Endpoint.Addr != late || rec.Endpoint.Pod == "" {
		t.Errorf("record %+v", rec)
	}
}

// recordHasTheError: the record has the error of the socket that broke.
func recordHasTheError(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		awaitReader()
		c.SetLinger(0)
	}))
	c := dialTCP(t, f.at)
	c.Write([]byte("x"))
	io.ReadAll(c)
	rec := d.record()
	if rec.Outcome != record.OutcomeEndpointReset || !strings.Contains(rec.Error, "reset by peer") ||
		rec.Errno != syscall.ECONNRESET {
		t.Errorf("%s, %q: record %+v", rec.Outcome, rec.Error, rec)
	}
}

// recordOfWhatWasDelivered: what was read of one side and not delivered to the other is in the record.
func recordOfWhatWasDelivered(t *trial) {
	release := make(chan struct{})
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		c.SetReadBuffer(4 << 10)
		<-release
		c.SetLinger(0)
	}))
	fill(dialTCP(t, f.at))
	close(release)
	rec := d.record()
	if rec.Outcome != record.OutcomeEndpointReset || rec.BytesToEndpoint <= 0 ||
		rec.BytesToEndpoint >= rec.BytesFromClient {
		t.Errorf("%d bytes read, %d delivered: %+v", rec.BytesFromClient, rec.BytesToEndpoint, rec)
	}
}

// fill sends until nothing more is taken.
func fill(c net.Conn) {
	data := make([]byte, 1<<20)
	for {
		c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := c.Write(data); err != nil {
			return
		}
	}
}

// udpAttemptsHaveTheirOwnTime: the time of an attempt does not begin with the session, so that they add up.
func udpAttemptsHaveTheirOwnTime(t *trial) {
	const apart = 300 * time.Millisecond
	d := t.start(splice.Options{})
	late, err := net.ListenPacket("udp", loopback+":0")
	t.must(err)
	f := d.udp(addrOf(late.LocalAddr()), t.refusing(), echoDatagrams(t, loopback))
	c := dialUDP(t, f.at)
	c.Write([]byte("x")) // to the first, which takes it, and goes without an answer
	d.sessions(1)
	time.Sleep(apart)
	late.Close()
	askAgain(t, c, "y")
	f.Close()
	rec := d.record()
	a := rec.Attempts
	if len(a) != 3 || a[0].Took+a[1].Took+a[2].Took > rec.Duration || !refusedIn(a[1]) {
		t.Errorf("attempts %+v", a)
	}
}
