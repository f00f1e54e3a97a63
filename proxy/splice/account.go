package splice

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/portald/portald/portal/service"
)

// Budget is what there is for carrying traffic. A zero field means no bound, or the default that it names.
type Budget struct {
	Descriptors int // of connections (two each), UDP sessions, pipes (two each), listeners and event loops
	Sessions    int // UDP sessions, each of which takes a local port of the host
	PipePages   int // slots of pipes: the kernel bounds them for all processes of a user; default DefaultPipePages
	Buffers     int // of 64 KiB, with bytes that a peer does not take; default DefaultBuffers
	Kept        int // connections that are kept for a successor: see Core.Keep
}

// The defaults: a quarter of fs.pipe-user-pages-soft as the kernel sets it, and 32 MiB.
const (
	DefaultPipePages = 16384 / 4
	DefaultBuffers   = 512
)

// replayPart is which part of the memory of all buffers may be used, beside these, for what clients have sent and may
// be sent again.
const replayPart = 4

// What the account refuses.
var (
	ErrDescriptors = fmt.Errorf("descriptors are scarce: %w", syscall.EMFILE)
	ErrSessions    = errors.New("UDP sessions are scarce")
)

// Account counts who holds how much of a Budget, and decides who may have more. Nothing of the data path is taken
// outside it. Safe for concurrent use.
//
// A namespace may hold at most namespaceShare times what is free, a Service serviceShare times what its namespace may
// still take, and so on: see share. Whoever takes all it can get leaves some for those with little, and the limits need
// no count of them. (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998.) Open connections are never ended for
// others. Sessions are evicted from whoever has the most of them.
type Account struct {
	most    [resources]int64
	budget  Budget
	buffers atomic.Int64 // looked at for each load that is copied

	_     [64]byte // another cache line: what follows is written for each connection, by all loops
	used  [resources]atomic.Int64
	pages atomic.Int64
	pipes atomic.Int64

	mu         sync.Mutex
	tenants    map[service.Name]*tenant // guarded by mu
	namespaces map[string]*namespace    // guarded by mu
	largest    largest[tenant]
	clients    [clientShards]clientShard
	networks   networks
}

// resource is a kind of what the account counts.
type resource uint8

const (
	descriptors resource = iota
	listeners            // which take descriptors, too
	sessions
	places   // with who keeps connections
	replayed // bytes of clients that are kept to be sent later, or again
	resources
)

// NewAccount returns an account of which nothing is taken.
func NewAccount(b Budget) *Account {
	if b.PipePages == 0 {
		b.PipePages = DefaultPipePages
	}
	if b.Buffers == 0 {
		b.Buffers = DefaultBuffers
	}
	a := &Account{budget: b, tenants: map[service.Name]*tenant{}, namespaces: map[string]*namespace{}}
	a.most[descriptors], a.most[sessions], a.most[places] = int64(b.Descriptors), int64(b.Sessions), int64(b.Kept)
	a.most[replayed] = int64(b.Buffers) * maxReplay / replayPart
	for i := range a.clients {
		a.clients[i].held, a.clients[i].all = map[clientKey]*holder{}, map[netip.Addr]*client{}
	}
	a.networks.held = map[netip.Prefix]*network{}
	return a
}

// Open takes n descriptors that no Service or client is charged for, such as those of listeners. ErrDescriptors: so
// many are not left.
func (a *Account) Open(n int) error {
	if used := a.used[descriptors].Add(int64(n)); a.most[descriptors] > 0 && used > a.most[descriptors] {
		a.Close(n)
		return ErrDescriptors
	}
	return nil
}

// Close gives back what Open took.
func (a *Account) Close(n int) { a.used[descriptors].Add(-int64(n)) }

// openListener takes a descriptor for a listener of a Service. It may be one of those that connections leave free.
func (a *Account) openListener(t *tenant) error {
	if err := a.Open(1); err != nil {
		return err
	}
	t.charge(listeners, 1)
	all := a.most[descriptors]
	if n := t.of.held[listeners].Load(); all > 0 && t.of.left(listeners, float64(all-a.used[descriptors].Load())) < 0 {
		a.closeListener(t)
		return &ShareError{ErrDescriptors, "the listeners of namespace " + t.name.Namespace, n - 1, all}
	}
	return nil
}

func (a *Account) closeListener(t *tenant) {
	t.charge(listeners, -1)
	a.Close(1)
}

// takeConnection takes what a TCP connection needs, or returns an error that wraps ErrDescriptors.
func (a *Account) takeConnection(h *holder) error {
	if !a.take(descriptors, h, 2) {
		return a.refusal(ErrDescriptors, descriptors, h, 2)
	}
	return nil
}

func (a *Account) giveConnection(h *holder) { a.give(descriptors, h, 2) }

// takeSession takes what a UDP session needs, or returns an error that wraps ErrSessions or ErrDescriptors. The socket
// that it is for has so many sessions already.
func (a *Account) takeSession(h *holder, has int) error {
	if !a.take(sessions, h, 1) && !a.takeReserved(h, has) {
		return a.refusal(ErrSessions, sessions, h, 1)
	}
	if !a.take(descriptors, h, 1) {
		a.give(sessions, h, 1)
		return a.refusal(ErrDescriptors, descriptors, h, 1)
	}
	return nil
}

func (a *Account) giveSession(h *holder) {
	a.give(descriptors, h, 1)
	a.give(sessions, h, 1)
}

// take takes n for a client unless somebody would hold more than its share.
func (a *Account) take(r resource, h *holder, n int64) bool {
	used := a.keep(r, h, n)
	if a.most[r] == 0 {
		return true
	}
	if used <= a.most[r] && !a.exceeds(r, h, used) {
		return true
	}
	a.give(r, h, n)
	return false
}

// exceeds tells whether a client has more than its share of a resource of which so much is used.
func (a *Account) exceeds(r resource, h *holder, used int64) bool {
	free := a.free(r, used)
	return h.left(r, free) < 0 || h.client.left(r, free) < 0
}

// free is how much clients may still take of a resource of which so much is used.
func (a *Account) free(r resource, used int64) float64 {
	free := a.most[r] - used
	if r == descriptors {
		free -= a.most[r] / forListeners
	}
	return float64(free)
}

// forListeners is which part of the descriptors connections leave free, for the listeners of new Services.
const forListeners = 16

// keep takes n although it may be more than a share: what is open is not ended for others. It returns how much is used
// then.
func (a *Account) keep(r resource, h *holder, n int64) (used int64) {
	h.charge(r, n)
	h.client.charge(r, n)
	return a.used[r].Add(n)
}

func (a *Account) give(r resource, h *holder, n int64) { a.keep(r, h, -n) }

// takeReserved takes a session from what the shares keep free, and has whoever has the most sessions evict some, so
// that there is always something left. That is for Services with few sessions, and for a socket with few sessions of
// any Service. A client with a large part of all sessions gives up its own, and leaves the last ones to others: what is
// given up comes a moment later.
func (a *Account) takeReserved(h *holder, has int) bool {
	most := a.most[sessions]
	if a.isHeavy(h.client) {
		most -= most / heavyClient
		from := a.largestHolder(h.client)
		if has >= fewSessions && from.keeps() <= 2*h.held[sessions].Load() {
			return false
		}
		from.tenant.yieldOf(from)
	} else {
		from := a.largestTenant()
		if from == nil || has >= fewSessions && from.keeps() <= 2*h.tenant.held[sessions].Load() {
			return false
		}
		from.yield()
	}
	if a.keep(sessions, h, 1) > most {
		a.give(sessions, h, 1)
		return false
	}
	return true
}

// heavyClient is the part of the sessions of a socket, or of all, from which on a client makes room for its next one by
// its own: one in so many.
const heavyClient = 16

// isHeavy tells whether a client address has a large part of all sessions.
func (a *Account) isHeavy(c *client) bool {
	return c.held[sessions].Load() >= max(fewSessions, a.most[sessions]/heavyClient)
}

// largestTenant is the Service with the most sessions, nil if none has many.
func (a *Account) largestTenant() *tenant {
	return a.largest.find(func(t *tenant) int64 { return t.keeps() }, func(yield func(*tenant) bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, t := range a.tenants {
			if t.keeps() > fewSessions && !yield(t) {
				return
			}
		}
	})
}

// largestHolder is the Service of which a client has the most sessions.
func (a *Account) largestHolder(c *client) *holder {
	return c.largest.find(func(h *holder) int64 { return h.keeps() }, func(yield func(*holder) bool) {
		s := a.shard(c.addr)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, h := range c.holders {
			if !yield(h) {
				return
			}
		}
	})
}

// largest is the one of many that has the most, or one with half as many: a search takes time, so it is repeated only
// once what was found has lost half of what it had. Safe for concurrent use.
type largest[T any] struct {
	at  atomic.Pointer[T]
	had atomic.Int64
}

// find returns it, nil if there is none.
func (l *largest[T]) find(has func(*T) int64, all iter.Seq[*T]) *T {
	if of := l.at.Load(); of != nil && has(of) > l.had.Load()/2 {
		return of
	}
	var most *T
	for of := range all {
		if most == nil || has(of) > has(most) {
			most = of
		}
	}
	if most != nil {
		l.had.Store(has(most))
	}
	l.at.Store(most)
	return most
}

// fewSessions is up to how many sessions a Service or socket has few.
const fewSessions = 8
