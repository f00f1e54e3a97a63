package goroutine

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// The pause after an accept or a receive failed, for want of something, doubles from the first to the last.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// lastAccepts is how long a closing listener still accepts connections that are in the kernel's accept queue.
const lastAccepts = 10 * time.Millisecond

// listener is a listening TCP socket of a front.
type listener struct {
	e     *Engine
	front *splice.Front
	tcp   *net.TCPListener
}

func (e *Engine) listenTCP(f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	l, err := e.listenerAt(f.Name(), at)
	if err != nil {
		return nil, cause(err)
	}
	n := &listener{e: e, front: f, tcp: l.(*net.TCPListener)}
	e.add(n)
	if !e.start(n.run) {
		n.close()
	}
	return n, nil
}

// listenerAt takes over the listener of a predecessor, or makes one.
func (e *Engine) listenerAt(name service.PortName, at netip.AddrPort) (net.Listener, error) {
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

// listenControl sets options of sockets that clients connect or send to.
func (e *Engine) listenControl(protocol inet.Protocol) func(string, string, syscall.RawConn) error {
	if e.host.Listening == nil {
		return nil
	}
	return func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = e.host.Listening(fd, protocol) })
		return errors.Join(failed, err)
	}
}

// Sessions implements splice.Socket.
func (n *listener) Sessions() *splice.Sessions { return nil }

// Drain implements splice.Socket.
func (n *listener) Drain() { n.end() }

// Close implements splice.Socket.
func (n *listener) Close() { n.end() }

func (n *listener) stop() { n.end() }

// end makes run return soon.
func (n *listener) end() { _ = n.tcp.SetDeadline(time.Now().Add(lastAccepts)) }

func (n *listener) close() {
	n.tcp.Close()
	n.e.remove(n)
	n.front.ListenerClosed()
}

// run accepts until the listener ends.
func (n *listener) run() {
	defer n.close()
	for pause := time.Duration(0); ; {
		c, err := n.tcp.AcceptTCP()
		switch {
		case err == nil:
			pause = 0
			n.e.serve(n.front, c)
		case deadlinePassed(err), errors.Is(err, net.ErrClosed):
			return
		default: // a shortage, most likely
			n.e.core.AcceptFailed(cause(err))
			pause = min(max(2*pause, firstPause), lastPause)
			n.e.rest(pause)
		}
	}
}

// rest sleeps, or returns early when the engine ends.
func (e *Engine) rest(pause time.Duration) {
	select {
	case <-e.ctx.Done():
	case <-time.After(pause):
	}
}
