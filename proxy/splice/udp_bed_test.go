package splice

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// udpBed is an engine with one UDP socket and nothing of a network: what sessions send is kept, and time is the
// bubble's.
type udpBed struct {
	t        *testing.T
	core     *Core
	front    *Front
	sessions *Sessions
	timer    time.Duration
	picker   *countingPicker
	refuses  map[netip.AddrPort]bool // endpoints to which no socket can be connected
	sent     []string                // "endpoint datagram"
	records  []*record.Record
	closed   bool
	opened   int // sessions that Open has begun, or refused with a record

	mu    sync.Mutex
	queue []func() // guarded by mu
}

// udpConn is a session of the bed. Its endpoint is the zero AddrPort while it has no socket.
type udpConn struct {
	Session
	bed      *udpBed
	key      SessionKey
	endpoint netip.AddrPort
	dead     bool // the endpoint has refused what was sent last
}

var (
	errRefused = errors.New("refused")
	localAddr4 = netip.MustParseAddr("10.96.0.10")
)

const frontPort = 53

// inUDPBed runs a test with a front that has some endpoints, and checks in the end that nothing is left.
func inUDPBed(t *testing.T, opts Options, port *service.Port, endpoints int, test func(*udpBed)) {
	synctest.Test(t, func(t *testing.T) {
		b := &udpBed{t: t, timer: -1, picker: &countingPicker{}, refuses: map[netip.AddrPort]bool{}}
		opts.Observe = func(service.PortName) record.Observer {
			return record.ObserverFunc(func(r *record.Record) { b.records = append(b.records, r) })
		}
		core, err := New(opts, func(*Core) (Engine, error) { return b, nil })
		if err != nil {
			t.Fatal(err)
		}
		b.core = core
		at := netip.AddrPortFrom(localAddr4, frontPort)
		name := service.PortName{Namespace: "shop", Name: "dns", Port: "dns", Protocol: inet.UDP}
		b.front, err = core.Open(name, Pickers{b.picker, b.picker}, b.view(port, endpoints), at)
		if err != nil {
			t.Fatal(err)
		}
		test(b)
		b.front.Close()
		b.run()
		b.checkEmpty()
	})
}

// inHostBed is inUDPBed with a host whose lookups return when the test says so.
func inHostBed(t *testing.T, port *service.Port, endpoints int, test func(b *udpBed, answer func(bool))) {
	var answers chan bool
	opts := Options{
		IsLocal: func(netip.Addr, int) bool { return <-answers },
		Returns: func(_, _ netip.Addr, _ int) bool { return <-answers },
	}
	inUDPBed(t, opts, port, endpoints, func(b *udpBed) {
		answers = make(chan bool)
		test(b, func(yes bool) {
			answers <- yes
			b.run()
		})
	})
}

func (b *udpBed) view(port *service.Port, endpoints int) *View {
	at := service.Frontend{Addr: netip.AddrPortFrom(localAddr4, frontPort), Protocol: inet.UDP}
	v := &View{Port: port, Exposures: []service.Exposure{{Frontend: at, Kind: service.LoadBalancerIP}}}
	for i := range endpoints {
		v.Endpoints = append(v.Endpoints, service.Endpoint{Addr: endpointNumber(i), Ready: true, Serving: true})
	}
	b.picker.set(v.Endpoints)
	return v
}

// serve has the front serve other endpoints, by their numbers.
func (b *udpBed) serve(numbers ...int) {
	v := b.front.present().View
	v.Endpoints = nil
	for _, i := range numbers {
		v.Endpoints = append(v.Endpoints, service.Endpoint{Addr: endpointNumber(i), Ready: true, Serving: true})
	}
	b.picker.set(v.Endpoints)
	b.front.Retarget(&v)
	b.run()
}

// Listen implements Engine, as the following methods do.
func (b *udpBed) Listen(f *Front, at netip.AddrPort) (Socket, error) {
	b.sessions = NewSessions(f, at.Port(), b)
	return b, nil
}

func (b *udpBed) Run(context.Context) error { return nil }
func (b *udpBed) Silent() time.Duration     { return 0 }

// Drain implements Socket, as the following methods do.
func (b *udpBed) Drain()                 { b.sessions.Drain() }
func (b *udpBed) Sessions() SessionTable { return b.sessions }

func (b *udpBed) Close() {
	b.Do(b.sessions.Close)
	if !b.closed {
		b.core.account.Close(1)
	}
	b.closed = true
}

// Do implements SessionSocket, as the following methods do.
func (b *udpBed) Do(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, f)
	return true
}

func (b *udpBed) SetTimer(at time.Duration) { b.timer = at }

func (b *udpBed) Deliver(data []byte, of SessionConn) { b.deliver(of.(*udpConn).key, string(data)) }

// run calls all queued functions and due timers, and all that follows from them.
func (b *udpBed) run() {
	for {
		synctest.Wait() // for lookups that return at once
		b.mu.Lock()
		queue := b.queue
		b.queue = nil
		b.mu.Unlock()
		if len(queue) == 0 {
			b.check()
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

// pass lets time pass, and the timer fire.
func (b *udpBed) pass(d time.Duration) {
	for end := b.core.Now() + d; ; {
		now := b.core.Now()
		if b.timer < 0 || b.timer > end {
			time.Sleep(end - now)
			return
		}
		time.Sleep(max(0, b.timer-now))
		b.timer = -1
		b.sessions.Sweep(b.core.Now())
		b.run()
	}
}

// deliver has a client's datagram come in.
func (b *udpBed) deliver(key SessionKey, data string) *udpConn {
	now := b.core.Now()
	c, ok := b.sessions.Find(key).(*udpConn)
	if !ok {
		c = &udpConn{bed: b, key: key}
		before := len(b.records)
		opened := b.sessions.Open(&c.Session, c, key, 0, now)
		own := func(r *record.Record) bool { return r == &c.life.result.ended.Record }
		if opened || slices.ContainsFunc(b.records[before:], own) {
			b.opened++
		}
		if !opened {
			return nil
		}
	}
	c.Received([]byte(data), now)
	c.Forward([]byte(data))
	return c
}

// say is a datagram of a client, by its number. Each has its own address.
func (b *udpBed) say(client int, data string) *udpConn { return b.sayFrom(client, 1, data) }

// sayFrom is one from a port of the client's.
func (b *udpBed) sayFrom(client, port int, data string) *udpConn {
	addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(client)})
	c := b.deliver(SessionKey{Client: netip.AddrPortFrom(addr, uint16(port)), Local: localAddr4}, data)
	b.run()
	return c
}

// Dial implements SessionConn, as the following methods do.
func (c *udpConn) Dial(to netip.AddrPort, _ netip.Addr, first []byte) (netip.AddrPort, Shortage, error) {
	if c.endpoint.IsValid() {
		c.bed.t.Errorf("a socket to %s is open when %s is dialled", c.endpoint, to)
	}
	if c.bed.refuses[to] {
		return netip.AddrPort{}, Enough, errRefused
	}
	c.endpoint, c.dead = to, false
	if first != nil {
		c.bed.sent = append(c.bed.sent, fmt.Sprint(to.Addr(), " ", string(first)))
	}
	return netip.MustParseAddrPort("192.0.2.200:40000"), Enough, nil
}

func (c *udpConn) Forward(data []byte) {
	switch {
	case c.Buffer(data):
	case c.dead:
		c.dead = false
		c.Refused(errRefused, data)
	default:
		c.bed.sent = append(c.bed.sent, fmt.Sprint(c.endpoint.Addr(), " ", string(data)))
		c.Sent(len(data))
	}
}

func (c *udpConn) Close() { c.endpoint = netip.AddrPort{} }

// reply has the endpoint answer.
func (c *udpConn) reply(n int64) {
	if !c.endpoint.IsValid() || c.Over() {
		c.bed.t.Fatal("a session without a socket gets an answer")
	}
	c.Replied(n, c.bed.core.Now())
	c.bed.run()
}

// check compares the sessions with the counts: each is in one list of its socket and in one of its client, and counted
// once wherever sessions are counted.
func (b *udpBed) check() {
	b.t.Helper()
	s, a := b.sessions, b.core.account
	ofClients := map[*Session]bool{}
	inClients := 0
	for addr, c := range s.clients {
		n := 0
		for session := range c.lists.each {
			if session.client != c || session.life.entry.clientAddr() != addr || ofClients[session] {
				b.t.Errorf("session %d is in a list of %s", session.life.entry.id, addr)
			}
			ofClients[session] = true
			n++
		}
		if n != c.n || c.quota.Used(quota.Sessions) != int64(n) {
			held := c.quota.Used(quota.Sessions)
			b.t.Errorf("%s has %d sessions, %d are counted, and %d in the account", addr, n, c.n, held)
		}
		inClients += n
	}
	n, attached := 0, 0
	for session := range s.lists.each {
		n++
		if session.over || !ofClients[session] {
			b.t.Errorf("session %d is over (%t) or in no list of its client", session.life.entry.id, session.over)
		}
		if session.detached {
			continue
		}
		attached++
		if s.attached[session.key] != session {
			b.t.Errorf("session %d does not get its client's datagrams", session.life.entry.id)
		}
	}
	for what, got := range map[string]int64{
		"in lists of clients": int64(inClients), "counted by the socket": s.n.Load(),
		"counted by the core": b.core.counts.sessions.Load(), "in the account": a.Used(quota.Sessions),
		"of the Service": b.front.quota.Used(quota.Sessions),
		"registered":     int64(len(b.core.Registry.all(0))), "without a record": int64(b.opened - len(b.records)),
	} {
		if got != int64(n) {
			b.t.Errorf("%d sessions, and %d %s", n, got, what)
		}
	}
	if len(s.attached) != attached || b.front.Active() != int64(attached) {
		b.t.Errorf("%d sessions are attached, %d by key, and %d live ones", attached, len(s.attached), b.front.Active())
	}
	b.picker.check(b.t, n)
}

// each is for tests.
func (l *sessionLists) each(yield func(*Session) bool) {
	for _, list := range []*sessionList{&l.answered, &l.awaitingReply, &l.detached, &l.detachedAwaitingReply} {
		var last *Session
		for s := list.first; s != nil; last, s = s, s.links[list.at].next {
			if s.links[list.at].prev != last || l.of(s) != list || !yield(s) {
				panic(fmt.Sprintf("session %d is in a wrong list, or after a wrong one", s.life.entry.id))
			}
		}
		if list.last != last {
			panic("a list has another last session")
		}
	}
}

// checkEmpty is for a front that was closed.
func (b *udpBed) checkEmpty() {
	b.t.Helper()
	if n := b.sessions.n.Load(); n != 0 || len(b.sessions.clients) != 0 || b.timer >= 0 {
		b.t.Errorf("%d sessions of %d clients are left, and the timer at %v", n, len(b.sessions.clients), b.timer)
	}
	a := b.core.account
	known := a.Known(b.front.name.Service()) != nil
	if used := a.Used(quota.Descriptors); known || used != 0 {
		b.t.Errorf("the Service is left in the account: %t, and %d descriptors", known, used)
	}
	ids := map[uint64]bool{}
	for _, r := range b.records {
		if ids[r.ID] {
			b.t.Errorf("two records of %d", r.ID)
		}
		ids[r.ID] = true
	}
}

// outcomes lists the outcomes of the records so far, each with its client.
func (b *udpBed) outcomes() (all []string) {
	for _, r := range b.records {
		all = append(all, fmt.Sprintf("%s %s", r.Client.Addr(), r.Outcome))
	}
	return all
}

func (b *udpBed) wantSent(want ...string) {
	b.t.Helper()
	if !slices.Equal(b.sent, want) {
		b.t.Errorf("sent %q, want %q", b.sent, want)
	}
}

func (b *udpBed) wantOutcomes(want ...string) {
	b.t.Helper()
	if got := b.outcomes(); !slices.Equal(got, want) {
		b.t.Errorf("records of %q, want %q", got, want)
	}
}

// countingPicker is a ring of endpoints whose leases are counted.
type countingPicker struct {
	list []netip.AddrPort
	next int
	open map[*countedLease]struct{}
}

// countedLease is a lease that is dialled once, and ended once if that worked.
type countedLease struct {
	p       *countingPicker
	dialled bool
}

func (p *countingPicker) set(endpoints []service.Endpoint) {
	p.list = nil
	for _, e := range endpoints {
		p.list = append(p.list, e.Addr)
	}
}

func (p *countingPicker) Join(netip.AddrPort) State { return nil }

func (p *countingPicker) MayRetry(*service.Policy) bool { return true }

func (p *countingPicker) Retried() {}

func (p *countingPicker) Pick(_ netip.Addr, tried []netip.AddrPort, _ *service.Policy) (Lease, bool) {
	for range p.list {
		at := p.list[p.next%len(p.list)]
		p.next++
		if slices.Contains(tried, at) {
			continue
		}
		l := &countedLease{p: p}
		if p.open == nil {
			p.open = map[*countedLease]struct{}{}
		}
		p.open[l] = struct{}{}
		return Lease{Endpoint: at, State: l}, true
	}
	return Lease{}, false
}

// check has as many leases open as there are sessions, but those that wait for the host without one.
func (p *countingPicker) check(t *testing.T, most int) {
	t.Helper()
	if len(p.open) > most {
		t.Errorf("%d leases of %d sessions", len(p.open), most)
	}
}

func (l *countedLease) Dialled(err error, _ time.Duration) bool {
	if _, open := l.p.open[l]; l.dialled || !open {
		panic("a lease is dialled again")
	}
	if l.dialled = true; err != nil {
		delete(l.p.open, l)
	}
	return false
}

func (l *countedLease) Answered() {}

func (l *countedLease) ClosedEarly() bool { return false }

func (l *countedLease) Ended(netip.Addr, error, time.Duration) bool {
	if _, open := l.p.open[l]; !l.dialled || !open {
		panic("a lease ends that is not open")
	}
	delete(l.p.open, l)
	return false
}
