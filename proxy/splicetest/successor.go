package splicetest

import (
	"net"
	"net/netip"
	"os"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func successorScenarios() []scenario {
	return []scenario{
		{name: "ListenerOfPredecessor", run: listenerOfPredecessor, needs: Inheritance},
		{name: "SocketOfPredecessor", run: socketOfPredecessor, needs: Inheritance},
	}
}

// inherited has a data path listen with a duplicate of a socket, wherever it listens.
func inherited(socket interface{ File() (*os.File, error) }) splice.Options {
	return splice.Options{Listen: func(service.PortName, netip.AddrPort) (i splice.Inherited, err error) {
		i.File, err = socket.File()
		return i, err
	}}
}

// openAt opens a front at an address that others may listen at.
func openAt(d *dataPath, at netip.AddrPort, p inet.Protocol, endpoint netip.AddrPort) *splice.Front {
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
	openAt(d, addrOf(ln.Addr()), inet.TCP, echoServer(t))
	wantEcho(t, dialTCP(t, addrOf(ln.Addr())), "hello")
	if rec := d.record(); rec.Outcome != record.OutcomeOK {
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
	openAt(d, at, inet.UDP, echoDatagrams(t, loopback))
	if got := ask(t, dialUDP(t, at), "question"); got != "question" {
		t.Errorf("got %q", got)
	}
}
