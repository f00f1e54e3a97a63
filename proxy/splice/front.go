package splice

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/waitqueue"
)

// Front is the listeners of one service port in one address family. One goroutine opens, changes and closes it; engines
// read it from any.
type Front struct {
	core     *Core
	name     service.PortName
	pickers  Pickers
	observer record.Observer
	quota    *quota.Service
	plan     atomic.Pointer[plan]
	active   atomic.Int64
	rates    quota.Rates
	heir     atomic.Pointer[Front] // that serves the same now, once this is closed; nil: none
	inherits atomic.Bool           // it was opened as the heir of fronts that had connections
	orphan   bool                  // it was made for connections of a predecessor alone: see Restorer
	closed   atomic.Bool           // no endpoint is waited for any more

	mu      sync.Mutex
	sockets map[netip.AddrPort]Socket     // guarded by mu
	drained bool                          // guarded by mu
	waiting map[waitqueue.Waiter]struct{} // guarded by mu: connections that wait for another round of dials
}

// Open listens at the addresses, all of one family, for one service port; the other family is another front, and a
// limit of connections holds for each. The first address is the proxy port that portals lead to; others are served
// alike. An address in use is an error that wraps EADDRINUSE, and nothing is left open.
func (c *Core) Open(name service.PortName, pickers Pickers, view *View, at ...netip.AddrPort) (*Front, error) {
	pickers.setDefaults()
	f := &Front{
		core: c, name: name, pickers: pickers, observer: c.opts.Observe(name), quota: c.account.Service(name.Service()),
		sockets: map[netip.AddrPort]Socket{}, waiting: map[waitqueue.Waiter]struct{}{},
	}
	f.plan.Store(newPlan(view, c.policy.Load()))
	c.exposed.change(f, nil, view.Exposures)
	c.fronts.add(f)
	c.removals.succeeded(f)
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
	err := f.quota.OpenListener()
	if err != nil {
		return fmt.Errorf("listen at %s/%s: %w", at, f.name.Protocol, err)
	}
	s, err := f.core.engine.Listen(f, at)
	if err != nil {
		f.ListenerClosed()
		return fmt.Errorf("listen at %s/%s: %w", at, f.name.Protocol, err)
	}
	f.core.listening.Store(service.Frontend{Addr: at, Protocol: f.name.Protocol}, f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sockets[at] = s
	f.core.opts.Listening(f.name, at)
	return nil
}

// ListenerClosed gives back what Listen took. The engine calls it once for each of its sockets, when that is closed.
func (f *Front) ListenerClosed() { f.quota.CloseListener() }

// Unlisten closes the socket that Listen opened at that address.
func (f *Front) Unlisten(at netip.AddrPort) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sockets[at]; s != nil {
		f.core.listening.Delete(service.Frontend{Addr: at, Protocol: f.name.Protocol})
		s.Close()
		delete(f.sockets, at)
		f.core.opts.Listening(f.name, at)
	}
}

// SetGuarded sets whether rules let nothing but portals' traffic reach the sockets that are open now. Until that is
// set, the original destination of each UDP client is looked up in the kernel.
func (f *Front) SetGuarded(on bool) {
	for _, t := range f.sessions() {
		t.setGuarded(on)
	}
}

// sessions returns the session tables of all UDP sockets.
func (f *Front) sessions() (all []SessionTable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sockets {
		if t := s.Sessions(); t != nil {
			all = append(all, t)
		}
	}
	return all
}

// Name is the service port.
func (f *Front) Name() service.PortName { return f.name }

// Active is the number of live connections or sessions.
func (f *Front) Active() int64 { return f.active.Load() }

// Retarget replaces the view for new connections, and for those that wait for another round of dials, which dial at
// once. Of open TCP connections, those whose endpoint is not in it, or no longer serves, go on or end as their policy
// says. Such UDP sessions are detached: the client's next datagram begins another session, and answers of the endpoint
// are passed on for some seconds.
func (f *Front) Retarget(view *View) {
	next := newPlan(view, f.core.policy.Load())
	before := f.plan.Swap(next)
	f.core.exposed.change(f, before.Exposures, view.Exposures)
	if before.policy.Shares.MaxConnectionsPerClient <= 0 && next.policy.Shares.MaxConnectionsPerClient > 0 {
		f.core.countClients()
	}
	if before.policy.KeepPayload != next.policy.KeepPayload {
		f.core.payloadPolicyChanged(f)
	}
	for _, t := range f.sessions() {
		t.retarget(view)
	}
	f.core.removals.note(f)
	f.wake()
}

// await gives a connection its Turn when endpoints change, until cancelWait.
func (f *Front) await(w waitqueue.Waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[w] = struct{}{}
}

func (f *Front) cancelWait(w waitqueue.Waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, w)
}

func (f *Front) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.waiting {
		w.Turn()
	}
	f.quota.Waiting.Wake(f)
}

// present is the plan of this moment. It is replaced when the core's defaults have changed since it was made.
func (f *Front) present() *plan {
	for {
		p, defaults := f.plan.Load(), f.core.policy.Load()
		if p.defaults == defaults {
			return p
		}
		f.plan.CompareAndSwap(p, newPlan(&p.View, defaults))
	}
}

// endpoint describes an endpoint that was picked, by the plan that the connection began with, or by the present plan if
// that one does not have it.
func (f *Front) endpoint(p *plan, addr netip.AddrPort) *service.Endpoint {
	if e := p.endpoint(addr); e != nil {
		return e
	}
	if e := f.present().endpoint(addr); e != nil {
		return e
	}
	return &service.Endpoint{Addr: addr}
}

// Close stops listening. Connections that the kernel had accepted already are served, open ones go on; UDP sessions
// end, and so does what waits for an endpoint.
func (f *Front) Close() {
	for at := range f.sockets {
		f.Unlisten(at)
	}
	f.closed.Store(true)
	f.wake()
	f.core.exposed.change(f, f.present().Exposures, nil)
	f.core.fronts.remove(f)
	f.core.removals.left(f)
	f.quota.Leave()
}

// Drain takes no new connections or sessions. Open ones go on, until the engine ends; the front is of no other use
// then.
func (f *Front) Drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drained = true
	for _, s := range f.sockets {
		s.Drain()
	}
}

// cutSessions ends the UDP sessions by force, soon. The sockets of a front that was drained are closed, others are
// still its owner's to close.
func (f *Front) cutSessions() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sockets {
		if t := s.Sessions(); t != nil {
			t.cutSoon()
			if f.drained {
				s.Close()
			}
		}
	}
}

// Files are the descriptors of its sockets, which stay the engine's, by their addresses.
func (f *Front) Files() map[netip.AddrPort]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := map[netip.AddrPort]int{}
	for at, s := range f.sockets {
		if moving, ok := s.(MovingSocket); ok {
			files[at] = moving.File()
		}
	}
	return files
}

// Pause has the TCP sockets at these addresses accept nothing, soon; nil: all of them.
func (f *Front) Pause(at func(netip.AddrPort) bool) { f.eachPausable(at, Pausable.Pause) }

// Resume has all sockets accept and receive again.
func (f *Front) Resume() {
	f.eachPausable(nil, Pausable.Resume)
	for _, t := range f.sessions() {
		t.Resume()
	}
}

func (f *Front) eachPausable(at func(netip.AddrPort) bool, do func(Pausable)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for addr, s := range f.sockets {
		if p, ok := s.(Pausable); ok && s.Sessions() == nil && (at == nil || at(addr)) {
			do(p)
		}
	}
}
