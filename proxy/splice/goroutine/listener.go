package goroutine

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// lastAccepts is how long a closing listener still accepts connections that are in the kernel's accept queue.
const lastAccepts = 10 * time.Millisecond

// listener is a listening TCP socket of a front.
type listener struct {
	e     *shared
	among *sockets
	front *splice.Front
	tcp   *net.TCPListener
}

func listenTCP(e *shared, among *sockets, f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	l, err := listenerAt(e, f.Name(), at)
	if err != nil {
		return nil, cause(err)
	}
	n := &listener{e: e, among: among, front: f, tcp: l.(*net.TCPListener)}
	among.add(n)
	if !e.start(n.run) {
		n.close()
	}
	return n, nil
}

// listenerAt takes over the listener of a predecessor, or makes one.
func listenerAt(e *shared, name service.PortName, at netip.AddrPort) (net.Listener, error) {
	inherited, err := e.core.Options().Listen(name, at)
	if err != nil {
		return nil, err
	}
	if file := inherited.File; file != nil {
		defer file.Close()
		return net.FileListener(file)
	}
	config := net.ListenConfig{KeepAliveConfig: keepalive(), Control: e.listenControl(inet.TCP)}
	config.SetMultipathTCP(false)
	return config.Listen(e.ctx, network("tcp", at.Addr()), at.String())
}

// Sessions implements splice.Socket.
func (n *listener) Sessions() splice.SessionTable { return nil }

// Drain implements splice.Socket.
func (n *listener) Drain() { n.end() }

// Close implements splice.Socket.
func (n *listener) Close() { n.end() }

func (n *listener) stop() { n.end() }

// end makes run return soon.
func (n *listener) end() { _ = n.tcp.SetDeadline(time.Now().Add(lastAccepts)) }

func (n *listener) close() {
	n.tcp.Close()
	n.among.remove(n)
	n.front.ListenerClosed()
}

// run accepts until the listener ends.
func (n *listener) run() {
	defer n.close()
	for pause := splice.ShortagePause(); ; {
		c, err := n.tcp.AcceptTCP()
		switch {
		case err == nil:
			pause.Reset()
			serve(n.e, n.front, c)
		case deadlinePassed(err), errors.Is(err, net.ErrClosed):
			return
		default: // a shortage, most likely
			n.e.core.Shortages().AcceptFailed(cause(err))
			_ = backoff.Sleep(n.e.ctx, pause.Next())
		}
	}
}
