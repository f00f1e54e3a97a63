package splice

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// Front is the listeners of one service port in one address family. One goroutine opens, changes and
// closes it; what it serves may be asked for from any.
type Front struct {
	engine   *Engine
	name     service.PortName
	pickers  Pickers
	observer Observer
	plan     atomic.Pointer[plan]
	sockets  map[netip.AddrPort]socket
	active   atomic.Int64
	waiting  atomic.Int64 // connections that wait for another round of dials
	tenant   *tenant
}

// socket is one listening socket of a front.
type socket interface {
	retarget(*View)
	drain()
	close()
}

// Open listens at the addresses, all of one family, for one service port; the other family is another front, and a limit
// of connections holds for each. The first address is the proxy port that portals lead to; others are served alike. An
// address in use is an error that wraps EADDRINUSE, and nothing is left open.
func (e *Engine) Open(name service.PortName, pickers Pickers, view *View, at ...netip.AddrPort) (*Front, error) {
	pickers.setDefaults()
	f := &Front{
		engine: e, name: name, pickers: pickers, observer: e.opts.Observe(name), sockets: map[netip.AddrPort]socket{},
		tenant: e.account.tenant(name.Service()),
	}
	f.plan.Store(newPlan(view, e.policy.Load()))
	for _, addr := range at {
		if err := f.Listen(addr); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// Listen adds a listening socket.
func (f *Front) Listen(at netip.AddrPort) error {
	account := f.engine.account
	err := account.Open(1)
	if err != nil {
		return fmt.Errorf("listen at %s/%s: %w", at, f.name.Protocol, err)
	}
	fd, err := bind(at, f.name.Protocol)
	if err != nil {
		account.Close(1)
		return fmt.Errorf("listen at %s/%s: %w", at, f.name.Protocol, err)
	}
	if f.name.Protocol == service.UDP {
		f.sockets[at] = openUDP(f, fd, at.Port())
	} else {
		f.sockets[at] = openTCP(f, fd)
	}
	return nil
}

// Unlisten closes the socket that Listen opened at that address.
func (f *Front) Unlisten(at netip.AddrPort) {
	if s := f.sockets[at]; s != nil {
		s.close()
		delete(f.sockets, at)
	}
}

// SetGuarded tells whether nothing comes to the sockets that are open but what portals lead. Until that is said, or while it
// is not so, the kernel is asked of each UDP client.
func (f *Front) SetGuarded(on bool) {
	for _, s := range f.sockets {
		if u, ok := s.(*udpSocket); ok {
			u.guarded.Store(on)
		}
	}
}

// Name is the service port.
func (f *Front) Name() service.PortName { return f.name }

// Active is the number of live connections or sessions.
func (f *Front) Active() int64 { return f.active.Load() }

// Retarget has new connections see another view, and those that found no endpoint to answer dial at once. Open TCP
// connections go on as they began. UDP sessions whose endpoint is not in it, or no longer serves, get nothing more from
// their clients, whose next datagram picks anew; what the endpoint still answers is passed on for some seconds.
func (f *Front) Retarget(view *View) {
	f.plan.Store(newPlan(view, f.engine.policy.Load()))
	for _, s := range f.sockets {
		s.retarget(view)
	}
	f.wake()
}

// present is the plan of this moment, made anew when the engine's defaults are not those it was made with.
func (f *Front) present() *plan {
	for {
		p, defaults := f.plan.Load(), f.engine.policy.Load()
		if p.defaults == defaults {
			return p
		}
		f.plan.CompareAndSwap(p, newPlan(&p.View, defaults))
	}
}

// endpoint finds what is known of an endpoint that was picked: by the plan that the connection began with, or by the present
// one if it is newer than that.
func (f *Front) endpoint(p *plan, addr netip.AddrPort) service.Endpoint {
	e, ok := p.endpoint(addr)
	if !ok {
		e, _ = f.present().endpoint(addr)
	}
	return e
}

// Close stops listening. Connections that the kernel had accepted already are served, open ones go on; UDP sessions end.
func (f *Front) Close() {
	for at := range f.sockets {
		f.Unlisten(at)
	}
	f.engine.account.leaveTenant(f.tenant)
}

// Drain takes no new connections or sessions. Open ones go on, until the engine ends; the front is of no other use then.
func (f *Front) Drain() {
	for _, s := range f.sockets {
		s.drain()
	}
}

// bind makes a listening or bound socket whose options accepted sockets inherit.
func bind(at netip.AddrPort, protocol service.Protocol) (int, error) {
	kind := unix.SOCK_STREAM
	if protocol == service.UDP {
		kind = unix.SOCK_DGRAM
	}
	fd, e := sysSocket(family(at.Addr()), kind)
	if e != 0 {
		return 0, e
	}
	if at.Addr().Is6() {
		sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if kind == unix.SOCK_STREAM {
		sysSetInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		streamOptions(fd)
	} else {
		datagramOptions(fd, service.FamilyOf(at.Addr()))
	}
	var sa sockaddr
	sa.set(at)
	if err := sysBind(fd, &sa); err != 0 {
		sysClose(fd)
		return 0, err
	}
	if kind == unix.SOCK_STREAM {
		if err := unix.Listen(fd, backlog); err != nil {
			sysClose(fd)
			return 0, err
		}
	}
	return fd, nil
}

// backlog is asked for each listener; the kernel cuts it to net.core.somaxconn (4096 by default).
const backlog = 4096

// Keepalive of both sides, in seconds: a peer that is gone is noticed within some three minutes.
const (
	keepIdle     = 60
	keepInterval = 15
)

// streamOptions are set on listeners, from which accepted sockets inherit them, and on sockets to endpoints.
func streamOptions(fd int) {
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) // an urgent byte stays in the stream
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle)
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval)
}
