package splice

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice/crash"
)

// Core has the state that all connections and sessions of a daemon share: New, then Run. Safe for concurrent use.
type Core struct {
	Registry

	opts        Options
	account     *quota.Account
	start       time.Time // of the engine's clock
	engine      Engine
	policy      atomic.Pointer[service.Policy] // the defaults, complete
	lookups     hostLookups
	subscribers subscribers
	removals    removals
	listening   sync.Map // by service.Frontend: the Front that listens there
	exposed     exposed
	fronts      fronts
	loops       loopTimes
	crashes     *crash.Detector

	// Payload is what is kept of connections that ended badly. It is to be told of changes of service ports.
	Payload *payload.Ring

	_         [64]byte // what follows is written for each connection
	nextID    atomic.Uint64
	counts    counts
	shortages Shortages
}

// New returns a Core that serves once Run is called. open makes the engine that moves its bytes.
func New(opts Options, open func(*Core) (Engine, error)) (*Core, error) {
	opts.setDefaults()
	c := &Core{opts: opts, account: opts.Account, start: opts.Start}
	c.Registry.counts, c.Registry.readingTCPInfo = &c.counts, make(chan struct{}, 1)
	c.shortages.warn = opts.Warn
	c.fronts.begin()
	c.exposed.fronts = map[service.Frontend][]*Front{}
	c.removals.begin()
	c.crashes, c.Payload = crash.New(c.Now), payload.NewRing(payload.RingBytes)
	c.storePolicy(opts.Policy)
	e, err := open(c)
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	c.engine = e
	return c, nil
}

// Run serves until ctx ends, then cuts all connections and sessions, and returns when all have ended and were reported.
// It is called once, and no front may be opened after ctx has ended.
func (c *Core) Run(ctx context.Context) error {
	var looking sync.WaitGroup
	looking.Go(func() { c.removals.watch(ctx, c) })
	err := c.engine.Run(ctx)
	looking.Wait()
	c.lookups.end()
	c.crashes.End()
	return err
}

// Options returns the options of New, with defaults. They do not change, but for the policy: see SetPolicy.
func (c *Core) Options() *Options { return &c.opts }

// Now is the time on the core's clock.
func (c *Core) Now() time.Duration { return time.Since(c.start) }

// wall is the time by the wall clock, in ns since 1970, at which it was now on the core's clock a moment ago. One look
// at both clocks keeps the times of a connection in order: an iteration of an event loop may be long.
func (c *Core) wall(now time.Duration) int64 {
	t := time.Now()
	return t.UnixNano() - int64(t.Sub(c.start)-now)
}

// NextID is an id for a record of what no engine carries. None is given twice, also not by an engine.
func (c *Core) NextID() uint64 { return c.nextID.Add(1) }

// Shortages counts what the engine lacks.
func (c *Core) Shortages() *Shortages { return &c.shortages }

// Silent is the engine's.
func (c *Core) Silent() time.Duration { return c.engine.Silent() }

// answerTime is how long an answer of UDP may be under way: a session that has waited for longer most likely gets none.
const answerTime = 5 * time.Second

// Drain waits until no TCP connection is left and no UDP session waits for an answer, or ctx ends, and returns how many
// connections are. It waits for answers for answerTime at most, since some protocols have none.
func (c *Core) Drain(ctx context.Context) int64 {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	answers := time.Now().Add(answerTime)
	for c.counts.conns.Load() > 0 || time.Now().Before(answers) && c.replyPending(ctx) {
		select {
		case <-ctx.Done():
			return c.counts.conns.Load()
		case <-tick.C:
		}
	}
	return 0
}

// replyPending tells whether any UDP session waits for an answer that may be under way.
func (c *Core) replyPending(ctx context.Context) bool {
	tables := c.sessionTables()
	replies := make(chan bool, len(tables))
	for _, t := range tables {
		t.replyPending(replies)
	}
	pending := false
	for range tables {
		select {
		case <-ctx.Done():
			return false
		case one := <-replies:
			pending = pending || one
		}
	}
	return pending
}

// listensAt tells whether a front listens at just this address: to dial it would make the daemon its own client, and
// that one again, for as long as descriptors last.
func (c *Core) listensAt(at netip.AddrPort, protocol inet.Protocol) bool {
	_, listens := c.listening.Load(service.Frontend{Addr: at, Protocol: protocol})
	return listens
}

// SetPolicy replaces the daemon's defaults, of which zero fields mean service.DefaultPolicy. Open connections go on as
// they began; the idle timeout of UDP applies to open sessions too. It is not called any more once Run's ctx has ended.
func (c *Core) SetPolicy(p service.Policy) {
	before := c.policy.Load().Shares.MaxConnectionsPerClient
	c.storePolicy(p)
	if before <= 0 && c.policy.Load().Shares.MaxConnectionsPerClient > 0 {
		c.countClients()
	}
	for _, t := range c.sessionTables() {
		t.sweepSoon()
	}
}

func (c *Core) storePolicy(p service.Policy) {
	p = p.Or(service.DefaultPolicy())
	c.policy.Store(&p)
}

func (c *Core) sessionTables() (all []SessionTable) {
	for _, f := range c.fronts.all() {
		all = append(all, f.sessions()...)
	}
	return all
}

// CutAll ends all of them. An engine calls it when it ends, until none is left.
func (c *Core) CutAll() {
	for _, f := range c.fronts.all() {
		f.cutSessions()
	}
	for _, m := range c.open() {
		if m.common().front.name.Protocol != inet.UDP { // sessions end with their fronts
			m.cutSoon()
		}
	}
}

// countClients has all that is open counted for its client, soon, where that is limited by now.
func (c *Core) countClients() {
	for _, m := range c.open() {
		if m.common().front.present().policy.Shares.MaxConnectionsPerClient > 0 {
			m.countSoon()
		}
	}
}

// payloadPolicyChanged has the connections of a front keep payload, or let it go, soon.
func (c *Core) payloadPolicyChanged(of *Front) {
	c.Registry.each(func(m member) bool {
		if k, is := m.(payloadMember); is && k.common().front == of {
			k.updatePayloadSoon()
		}
		return true
	})
}

// fronts is the set of open fronts. Safe for concurrent use.
type fronts struct {
	mu   sync.Mutex
	open map[*Front]struct{} // guarded by mu
}

func (s *fronts) begin() { s.open = map[*Front]struct{}{} }

func (s *fronts) all() []*Front {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

func (s *fronts) add(f *Front) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[f] = struct{}{}
}

func (s *fronts) remove(f *Front) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, f)
}
