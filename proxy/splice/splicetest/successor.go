package splicetest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

func successorScenarios() []scenario {
	return []scenario{
		{name: "ListenerOfPredecessor", run: listenerOfPredecessor, needs: Inheritance},
		{name: "SocketOfPredecessor", run: socketOfPredecessor, needs: Inheritance},
		{name: "LeaveToSuccessor", run: leaveToSuccessor, needs: Inheritance},
	}
}

// inherited has a data path listen with a duplicate of a socket, wherever it listens.
func inherited(socket interface{ File() (*os.File, error) }) splice.Options {
	return splice.Options{Listen: func(service.Protocol, netip.AddrPort) (*os.File, error) { return socket.File() }}
}

// openAt opens a front at an address that others may listen at.
func (d *dataPath) openAt(at netip.AddrPort, p service.Protocol, endpoint netip.AddrPort) *splice.Front {
	d.t.Helper()
	s := serving{protocol: p, endpoints: []netip.AddrPort{endpoint}}
	view, pick := s.viewAt(at), &ring{list: s.endpoints}
	d.rings = append(d.rings, pick)
	f, err := d.Open(service.PortName{Namespace: "shop", Name: "cart", Protocol: p}, splice.Pickers{pick}, &view, at)
	d.t.must(err)
	return f
}

// listenerOfPredecessor: a front listens with a socket that others have too.
func listenerOfPredecessor(t *trial) {
	ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	t.must(err)
	defer ln.Close()
	d := t.start(inherited(ln.(*net.TCPListener)))
	d.openAt(addrOf(ln.Addr()), service.TCP, echoServer(t))
	wantEcho(t, dialTCP(t, addrOf(ln.Addr())), "hello")
	if rec := d.record(); rec.Outcome != splice.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
}

// socketOfPredecessor is the same for UDP.
func socketOfPredecessor(t *trial) {
	pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(loopback)})
	t.must(err)
	defer pc.Close()
	d := t.start(inherited(pc))
	at := addrOf(pc.LocalAddr())
	d.openAt(at, service.UDP, echoDatagrams(t, loopback))
	if got := ask(t, dialUDP(t, at), "question"); got != "question" {
		t.Errorf("got %q", got)
	}
}

// leaveToSuccessor: a data path that leaves resets nothing and reports nothing, and a client that waits at its listener
// is served by the successor.
func leaveToSuccessor(t *trial) {
	ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	t.must(err)
	defer ln.Close()
	at, server := addrOf(ln.Addr()), echoServer(t)
	old := t.start(inherited(ln.(*net.TCPListener)))
	f := old.openAt(at, service.TCP, server)
	open := dialTCP(t, at)
	exchange(t, open)
	old.Leave()
	f.Drain()
	old.stop()
	if _, err := open.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client of a connection without a successor sees %v, want its end", err)
	}
	old.noRecord(10 * time.Millisecond)

	waits := dialTCP(t, at)
	next := t.start(inherited(ln.(*net.TCPListener)))
	next.openAt(at, service.TCP, server)
	wantEcho(t, waits, "hello")
	if rec := next.record(); rec.Outcome != splice.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
}
