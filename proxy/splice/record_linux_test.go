package splice

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// The record names our own address and port towards the endpoint, as the endpoint sees it, also of dials that failed.
func TestRecordNamesTheProxy(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		r := newRig(t, Options{})
		seen := make(chan netip.AddrPort, 1)
		live := serveTCP(t, host, func(c *net.TCPConn) { seen <- c.RemoteAddr().(*net.TCPAddr).AddrPort() })
		dead := refusingAt(t, host)
		_, at := r.open(t, service.TCP, host, dead, live)
		c := dialTCP(t, at)
		c.CloseWrite()
		io.ReadAll(c)
		rec := r.record(t)
		if got, want := rec.Proxy(), <-seen; got != want {
			t.Errorf("%s: the record says %s, the endpoint sees %s", host, got, want)
		}
		if a := rec.Attempts[0]; a.Err == "" || a.Proxy.Port() == 0 || a.Proxy.Addr() != dead.Addr() {
			t.Errorf("%s: attempts %+v", host, rec.Attempts)
		}
	}
}

func TestRecordNamesTheProxyOfASession(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{UDPIdle: 50 * time.Millisecond}})
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	_, at := r.open(t, service.UDP, "127.0.0.1", pc.LocalAddr().(*net.UDPAddr).AddrPort())
	c, err := net.Dial("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	_, from, err := pc.ReadFrom(make([]byte, 1))
	if err != nil {
		t.Fatal(err)
	}
	if rec := r.record(t); rec.Proxy() != from.(*net.UDPAddr).AddrPort() || rec.BytesToEndpoint != 1 {
		t.Errorf("the endpoint sees %s; record %+v", from, rec)
	}
}

// An endpoint that was picked after the connection had begun is in its record by name.
func TestRecordNamesANewerEndpoint(t *testing.T) {
	old, fresh := silent(t), serveTCP(t, "127.0.0.1", echo)
	list := &ring{list: []netip.AddrPort{old}}
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{300 * time.Millisecond, time.Second}}})
	f, at := r.openWith(t, list, old)
	c := dialTCP(t, at)
	eventually(t, func() bool { return f.Active() == 1 }, "the connection has begun")
	list.set(fresh)
	f.Retarget(viewOf(at, service.TCP, []netip.AddrPort{fresh}))
	c.CloseWrite()
	io.ReadAll(c)
	if rec := r.record(t); rec.Endpoint.Addr != fresh || rec.Endpoint.Pod == "" {
		t.Errorf("record %+v", rec)
	}
}

// A client that resets the connection during a dial ends it then, and the record says so. One that only ends its direction
// waits on.
func TestClientLeavesDuringTheDial(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{20 * time.Second}}})
	f, at := r.open(t, service.TCP, "127.0.0.1", silent(t))
	patient, c := dialTCP(t, at), dialTCP(t, at)
	patient.CloseWrite()
	eventually(t, func() bool { return f.Active() == 2 }, "both dials have begun")
	c.SetLinger(0)
	c.Close()
	rec := r.record(t)
	if rec.Client != c.LocalAddr().(*net.TCPAddr).AddrPort() || rec.Outcome != OutcomeClientReset || rec.ClosedBy != Client ||
		rec.How != Reset || rec.Connect >= 0 || len(rec.Attempts) != 1 || rec.Attempts[0].Err != errGivenUp.Error() {
		t.Errorf("record %+v", rec)
	}
	if f.Active() != 1 {
		t.Errorf("%d dials go on, want the patient client's", f.Active())
	}
}

// The record has the error of the socket that broke.
func TestRecordHasTheError(t *testing.T) {
	r := newRig(t, Options{})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		c.SetLinger(0)
	}))
	c := dialTCP(t, at)
	c.Write([]byte("x"))
	io.ReadAll(c)
	if rec := r.record(t); rec.Outcome != OutcomeEndpointReset || rec.Error != unix.ECONNRESET.Error() {
		t.Errorf("%s, %q: record %+v", rec.Outcome, rec.Error, rec)
	}
}

// What was read of one side and not delivered to the other is in the record.
func TestRecordOfWhatWasDelivered(t *testing.T) {
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	r := newRig(t, Options{})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		c.SetReadBuffer(4 << 10)
		<-hold
		c.SetLinger(0)
	}))
	c := dialTCP(t, at)
	data := make([]byte, 1<<20)
	for { // until nobody takes more
		c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := c.Write(data); err != nil {
			break
		}
	}
	release()
	rec := r.record(t)
	if rec.Outcome != OutcomeEndpointReset || rec.BytesToEndpoint <= 0 || rec.BytesToEndpoint >= rec.BytesFromClient {
		t.Errorf("%d bytes read, %d delivered: %+v", rec.BytesFromClient, rec.BytesToEndpoint, rec)
	}
}

// Each attempt of a UDP session has its own time.
func TestUDPAttemptsHaveTheirOwnTime(t *testing.T) {
	const apart = 100 * time.Millisecond
	r := newRig(t, Options{Policy: service.Policy{UDPIdle: 300 * time.Millisecond}})
	late, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := late.LocalAddr().(*net.UDPAddr).AddrPort()
	second := refusing(t) // most likely nobody's UDP port either
	_, at := r.open(t, service.UDP, "127.0.0.1", first, second, serveUDP(t, "127.0.0.1"))
	c, err := net.Dial("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x")) // to the first, which takes it, and goes without an answer
	time.Sleep(apart)
	late.Close()
	c.Write([]byte("y"))
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	rec := r.record(t)
	if len(rec.Attempts) != 3 || rec.Attempts[1].Took > rec.Attempts[0].Took-apart*3/4 ||
		!strings.Contains(rec.Attempts[1].Err, "refused") {
		t.Errorf("attempts %+v", rec.Attempts)
	}
}
