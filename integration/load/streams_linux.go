package load

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Streams is a client of Answer with connections of all kinds that stay open, new ones at a steady rate, and UDP
// sessions. Of each direction every byte is compared.
type Streams struct {
	To       []netip.AddrPort // in turns
	Each     int              // connections of each kind that stay open
	Every    time.Duration    // how often each of Ask sends a request; at most 1 s
	Rate     int              // new ones a second
	Sessions int              // of UDP, each with a datagram every 50 ms
}

// StreamsResult is the outcome of all streams.
type StreamsResult struct {
	Spells   []Spell // in their order
	Totals   []Spell // of those with one name
	Streams  []StreamEnd
	Clients  map[string]int // addresses and ports of new connections, and how many each had
	Sessions []string       // addresses and ports of UDP sessions
	Failed   []string       // the first few new connections, and datagrams of wrong bytes
}

// Spell is a period, with the results of all that began in it.
type Spell struct {
	Name      string
	Took      time.Duration
	Asked     Times // exchanges of Ask
	Longest   Times // the longest one of each connection of Ask
	Connected Times // new connections, until their end
	Refused   int64 // new connections, as what follows
	Reset     int64
	TimedOut  int64
	Broken    int64 // otherwise
	Heard     Times // datagrams that were answered
	Lost      int64 // datagrams, as what follows
	Doubled   int64
	Misplaced int64 // answers that came after a later one's
}

// Times is a distribution.
type Times struct {
	Count          int64
	P50, P99, P999 time.Duration
	Max            time.Duration
}

// times collects Times.
type times struct {
	histogram
	max time.Duration
}

func (t *times) add(d time.Duration) {
	t.histogram.add(d)
	t.max = max(t.max, d)
}

func (t *times) merge(o *times) {
	for i, n := range o.counts {
		t.counts[i] += n
	}
	t.total += o.total
	t.max = max(t.max, o.max)
}

func (t *times) result() Times {
	return Times{int64(t.total), t.quantile(0.5), t.quantile(0.99), t.quantile(0.999), t.max}
}

// spell collects a Spell.
type spell struct {
	Spell
	began                                  time.Time
	exchanges, longest, connected, answers times
}

func (s *spell) merge(o *spell) {
	s.Took += o.Took
	s.exchanges.merge(&o.exchanges)
	s.longest.merge(&o.longest)
	s.connected.merge(&o.connected)
	s.answers.merge(&o.answers)
	s.Refused, s.Reset, s.TimedOut = s.Refused+o.Refused, s.Reset+o.Reset, s.TimedOut+o.TimedOut
	s.Broken, s.Lost = s.Broken+o.Broken, s.Lost+o.Lost
	s.Doubled, s.Misplaced = s.Doubled+o.Doubled, s.Misplaced+o.Misplaced
}

func (s *spell) result() Spell {
	s.Asked, s.Longest, s.Connected, s.Heard = s.exchanges.result(), s.longest.result(), s.connected.result(),
		s.answers.result()
	return s.Spell
}

// client is a run of Streams.
type client struct {
	Streams
	poll     *poll
	ticks    ticks
	steady   []steady
	fresh    newcomers
	sessions []session
	spells   []*spell
	ends     []StreamEnd
	opened   bool // all that stay
	stopping bool
	buf      [bufSize]byte
}

// steady is a connection that stays open.
type steady struct {
	stream
	client string
	opened time.Time
	every  time.Duration
	over   bool

	sent    time.Time // of the request that is under way, if any; of Ask, as what follows
	spell   int       // that it belongs to
	longest time.Duration
	of      int // spell of longest
}

// Keys of events and ticks are an index and the kind of thing that it counts.
const (
	ofSteady = iota << 24
	ofSession
	ofFresh
	keyMask = 1<<24 - 1
)

// Run opens the connections that stay, says "open" to out, and begins with the others. It goes on until in says "stop";
// each other line begins a spell of that name. At the end every connection is finished, and the answers of all.
func (c Streams) Run(ctx context.Context, in io.Reader, out io.Writer) (*StreamsResult, error) {
	r := &client{Streams: c}
	defer r.close()
	r.begin("opening")
	var err error
	if r.poll, err = newPoll(); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(out, "open"); err != nil {
		return nil, err
	}
	if err := r.run(ctx, lines(in)); err != nil {
		return nil, err
	}
	return r.result(), nil
}

func (r *client) begin(name string) {
	now := time.Now()
	if n := len(r.spells); n > 0 {
		r.spells[n-1].Took = now.Sub(r.spells[n-1].began)
	}
	r.spells = append(r.spells, &spell{Spell: Spell{Name: name}, began: now})
}

func (r *client) now() *spell { return r.spells[len(r.spells)-1] }

func (r *client) open(ctx context.Context) error {
	r.fresh = newcomers{client: r, clients: map[netip.AddrPort]int{}}
	r.steady = make([]steady, r.Each*int(kinds-1))
	for i := range r.steady {
		if err := r.openSteady(i); err != nil {
			return fmt.Errorf("open connection %d: %w", i, err)
		}
		if i%16 == 0 { // those that are open go on
			if err := r.turn(); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	r.opened = true
	return r.openSessions()
}

func (r *client) openSteady(i int) error {
	to, s := r.To[i%len(r.To)], &r.steady[i]
	k, number := i%int(kinds-1), i/int(kinds-1) // of its kind
	*s = steady{stream: stream{id: uint32((number/2*int(kinds)+k)*2 + number%2), kind: Kind(k + 1)}, opened: time.Now()}
	var err error
	if s.fd, err = unix.Socket(family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if s.every = s.first(); s.kind == Ask {
		s.every = r.Every
	}
	if err := unix.Connect(s.fd, sockaddr(to)); err != nil {
		return err
	}
	s.client = localAddr(s.fd).String()
	if err := unix.SetNonblock(s.fd, true); err != nil {
		return err
	}
	if _, err := send(s.fd, greeting(s.kind, s.id)); err != nil {
		return err
	}
	if s.every > 0 {
		r.ticks.in(s.every, i|ofSteady)
	}
	return r.poll.add(s.fd, i|ofSteady, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET)
}

func localAddr(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// endTime is how long connections may take to end: a full receive buffer has the kernel drop segments, and send them
// again after up to two minutes.
const endTime = 150 * time.Second

func (r *client) run(ctx context.Context, said <-chan string) error {
	var until time.Time
	for ctx.Err() == nil {
		if err := r.turn(); err != nil {
			return err
		}
		select {
		case line, more := <-said:
			switch {
			case !more && !r.stopping:
				return fmt.Errorf("standard input ends: %w", io.ErrUnexpectedEOF)
			case !more:
				said = nil
			case line == "stop":
				r.stop()
				until = time.Now().Add(endTime)
			default:
				r.begin(line)
			}
		default:
		}
		if r.stopping && (len(r.ends) == len(r.steady) && r.fresh.open == 0 && r.heardAll() || time.Now().After(until)) {
			r.begin("end")
			return nil
		}
	}
	return ctx.Err()
}

// turn handles due ticks and events.
func (r *client) turn() error {
	events, err := r.poll.wait(1)
	if err != nil {
		return err
	}
	for i := range events {
		key := int(events[i].Fd)
		switch at := key & keyMask; key &^ keyMask {
		case ofSteady:
			r.step(at, events[i].Events&gone != 0)
		case ofSession:
			r.hear(at)
		case ofFresh:
			r.fresh.step(at, events[i].Events)
		}
	}
	for ms := time.Since(r.spells[0].began).Milliseconds(); r.ticks.at < ms; {
		r.ticks.advance(r.due)
		if !r.opened {
			continue
		}
		if err := r.fresh.tick(); err != nil {
			return err
		}
	}
	return nil
}

// gone are the events of a socket whose other side may have ended its direction.
const gone = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR

// step has a connection do what it can now. Ended: the server may have ended its direction.
func (r *client) step(i int, ended bool) {
	s := &r.steady[i]
	if s.over {
		return
	}
	err := s.serve(r, ended)
	if err == nil && (!s.inEOF || !s.isEnd) {
		return
	}
	r.over(s, err)
}

func (r *client) over(s *steady, err error) {
	s.over = true
	if err != nil && isReset(err) {
		r.now().Reset++
	}
	e := s.end(err)
	e.Client, e.Opened = s.client, s.opened
	r.ends = append(r.ends, e)
	closeFD(s.fd)
}

func (s *steady) serve(r *client, ended bool) error {
	if s.kind != Slow || r.stopping {
		if err := s.drain(r.buf[:], ended); err != nil {
			return err
		}
	}
	if s.kind == Ask && !s.sent.IsZero() && s.in == s.goal {
		r.countExchange(s, time.Since(s.sent))
		s.sent = time.Time{}
	}
	if s.inEOF && !s.ends && s.kind != Half {
		return fmt.Errorf("ended by the other side after %d bytes: %w", s.in, io.ErrUnexpectedEOF)
	}
	return s.push()
}

// countExchange counts an exchange in the spell in which it began.
func (r *client) countExchange(s *steady, took time.Duration) {
	r.spells[s.spell].exchanges.add(took)
	if s.of != s.spell {
		r.fold(s)
		s.of = s.spell
	}
	s.longest = max(s.longest, took)
}

// fold counts the longest exchange that a connection had in a spell.
func (r *client) fold(s *steady) {
	if s.longest > 0 {
		r.spells[s.of].longest.add(s.longest)
	}
	s.longest = 0
}

func (r *client) due(key int) {
	if key&^keyMask == ofSession {
		r.say(key & keyMask)
		return
	}
	i := key & keyMask
	s := &r.steady[i]
	if s.over {
		return
	}
	r.ticks.in(s.every, key)
	switch {
	case s.kind == Ask && s.sent.IsZero() && !s.ends:
		s.goal += Size
		s.sent, s.spell = time.Now(), len(r.spells)-1
	case s.kind == Slow && !r.stopping:
		if _, err := s.receive(r.buf[:], slowSize); err != nil {
			r.over(s, err)
			return
		}
	}
	s.later()
	r.step(i, true)
}

// stop has all connections end.
func (r *client) stop() {
	r.stopping = true
	for i := range r.steady {
		s := &r.steady[i]
		if s.over {
			continue
		}
		if s.kind == Idle {
			s.goal += Size
		}
		s.finish()
		r.step(i, true)
	}
}

func (r *client) result() *StreamsResult {
	for i := range r.steady {
		if s := &r.steady[i]; !s.over {
			r.over(s, nil)
		}
		if r.steady[i].kind == Ask {
			r.fold(&r.steady[i])
		}
	}
	r.countLost()
	out := &StreamsResult{Streams: r.ends, Clients: map[string]int{}, Failed: r.fresh.failed}
	for a, n := range r.fresh.clients {
		out.Clients[a.String()] = n
	}
	for i := range r.sessions {
		out.Sessions = append(out.Sessions, r.sessions[i].client)
	}
	sums := map[string]*spell{}
	var order []*spell
	for _, s := range r.spells {
		out.Spells = append(out.Spells, s.result())
		if sums[s.Name] == nil {
			sums[s.Name] = &spell{Spell: Spell{Name: s.Name}}
			order = append(order, sums[s.Name])
		}
		sums[s.Name].merge(s)
	}
	for _, s := range order {
		out.Totals = append(out.Totals, s.result())
	}
	return out
}

func (r *client) close() {
	for i := range r.steady {
		if s := &r.steady[i]; !s.over && s.fd > 0 {
			closeFD(s.fd)
		}
	}
	r.closeSessions()
	r.fresh.close()
	if r.poll != nil {
		closeFD(r.poll.fd)
	}
}

// String shows a spell in one line.
func (s Spell) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s %6s  asked %s  longest %s  new %s  UDP %s, lost %d, doubled %d, misplaced %d", s.Name,
		s.Took.Round(100*time.Millisecond), s.Asked, s.Longest, s.Connected, s.Heard, s.Lost, s.Doubled, s.Misplaced)
	fmt.Fprintf(&b, "  refused %d, reset %d, timed out %d, broken %d", s.Refused, s.Reset, s.TimedOut, s.Broken)
	return b.String()
}

func (t Times) String() string {
	return fmt.Sprintf("%d: %s %s %s", t.Count, ms(t.P50), ms(t.P99), ms(t.Max))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }
