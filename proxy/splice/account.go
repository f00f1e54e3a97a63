package splice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/portald/portald/proxy/service"
)

// Budget is what there is for carrying traffic. A zero field means no bound, or the default that it names.
type Budget struct {
	Descriptors int // of connections (two each), UDP sessions, pipes (two each), listeners and event loops
	Sessions    int // UDP sessions, each of which takes a local port of the host
	PipePages   int // slots of pipes: the kernel bounds them for all processes of a user; default DefaultPipePages
	Buffers     int // of 64 KiB, with bytes that a peer does not take; default DefaultBuffers
}

// The defaults: a quarter of fs.pipe-user-pages-soft as the kernel sets it, and 32 MiB.
const (
	DefaultPipePages = 16384 / 4
	DefaultBuffers   = 512
)

// What the account refuses.
var (
	ErrDescriptors = fmt.Errorf("the share of descriptors is used up: %w", syscall.EMFILE)
	ErrSessions    = errors.New("the share of UDP sessions is used up")
)

// Account tells who holds how much of a Budget, and who may have more. Nothing of the data path is taken outside it. Safe
// for concurrent use.
//
// A Service may hold at most `share` times what nobody holds, and so may each of its clients of what its Service may still
// have. Whoever wants all there is gets eight ninths of it, two get eight seventeenths each; there is some left for those
// who have little, and nobody needs to count the others. (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998.)
// Connections that are open are not taken away from anybody. Sessions are: from the Service that has the most of them.
type Account struct {
	most    [resources]int64
	budget  Budget
	buffers atomic.Int64 // looked at for each load that is copied

	_     [64]byte // what follows is written for each connection, by all loops
	used  [resources]atomic.Int64
	pages atomic.Int64
	pipes atomic.Int64

	mu      sync.Mutex
	tenants map[service.Name]*tenant // guarded by mu
	largest atomic.Pointer[tenant]   // of those that were asked for, or nil
	clients [clientShards]clientShard
}

// share is how many times what is free one may hold.
const share = 8

// resource is what is shared.
type resource uint8

const (
	descriptors resource = iota
	sessions
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
	a := &Account{budget: b, tenants: map[service.Name]*tenant{}}
	a.most[descriptors], a.most[sessions] = int64(b.Descriptors), int64(b.Sessions)
	for i := range a.clients {
		a.clients[i].held = map[clientKey]*holder{}
	}
	return a
}

// Open takes n descriptors for what stays open whoever comes, as listeners do, from all there are. ErrDescriptors: there are
// none.
func (a *Account) Open(n int) error {
	if used := a.used[descriptors].Add(int64(n)); a.most[descriptors] > 0 && used > a.most[descriptors] {
		a.Close(n)
		return ErrDescriptors
	}
	return nil
}

// Close gives back what Open took.
func (a *Account) Close(n int) { a.used[descriptors].Add(-int64(n)) }

// takeConnection takes what a TCP connection needs.
func (a *Account) takeConnection(h *holder) bool { return a.take(descriptors, h, 2) }

func (a *Account) giveConnection(h *holder) { a.give(descriptors, h, 2) }

// takeSession takes what a UDP session needs; an error tells what of it there is not. The socket that it is for has so many
// already.
func (a *Account) takeSession(h *holder, has int) error {
	if !a.take(sessions, h, 1) && !a.takeOver(h, has) {
		return ErrSessions
	}
	if !a.take(descriptors, h, 1) {
		a.give(sessions, h, 1)
		return ErrDescriptors
	}
	return nil
}

func (a *Account) giveSession(h *holder) {
	a.give(descriptors, h, 1)
	a.give(sessions, h, 1)
}

// take takes n for a client unless it, or its Service, would hold more than its share.
func (a *Account) take(r resource, h *holder, n int64) bool {
	used, service, client := a.used[r].Add(n), h.tenant.held[r].Add(n), h.held[r].Add(n)
	most := a.most[r]
	if most == 0 {
		return true
	}
	rest := share*(most-used) - service // share+1 times what the Service may have more
	if used <= most && (share+1)*client <= share*rest {
		return true
	}
	a.give(r, h, n)
	return false
}

func (a *Account) give(r resource, h *holder, n int64) {
	h.held[r].Add(-n)
	h.tenant.held[r].Add(-n)
	a.used[r].Add(-n)
}

// takeOver takes a session from what is kept free for those who have little, and has the Service with the most sessions end
// some of its own, so that there is always something left. A Service that has much is not among them, unless it is for a
// socket of it that has little.
func (a *Account) takeOver(h *holder, has int) bool {
	from := a.heaviest()
	if from == nil || has >= fewSessions && from.held[sessions].Load() <= 2*h.tenant.held[sessions].Load() {
		return false
	}
	from.yield()
	if a.used[sessions].Add(1) > a.most[sessions] {
		a.used[sessions].Add(-1)
		return false
	}
	h.tenant.held[sessions].Add(1)
	h.held[sessions].Add(1)
	return true
}

// heaviest is the Service with the most sessions, or one with half as many; nil if none has many. To look for it takes as
// long as there are Services, so that is done anew only once the last has given half of its own away.
func (a *Account) heaviest() *tenant {
	if t := a.largest.Load(); t != nil && t.held[sessions].Load() > t.elected.Load()/2 {
		return t
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var most *tenant
	n := int64(fewSessions)
	for _, t := range a.tenants {
		if m := t.held[sessions].Load(); m > n {
			most, n = t, m
		}
	}
	if most != nil {
		most.elected.Store(n)
	}
	a.largest.Store(most)
	return most
}

// fewSessions are not worth taking away.
const fewSessions = 8

// MaxPipePages is the size of a pipe while few are held, in pages of memory. When many are held new ones are smaller.
const MaxPipePages = 256

const minPipePages = 16

// TakePipe takes two descriptors and some pages of memory for a pipe, none where connections need them or the pages are
// used up: a pipe only saves work.
func (a *Account) TakePipe() (pages int64, ok bool) {
	left := int64(a.budget.PipePages) - a.pages.Load()
	for pages = MaxPipePages; pages > minPipePages && pages*8 > left; pages /= 2 {
	}
	most := a.most[descriptors]
	switch {
	case a.pages.Add(pages) > int64(a.budget.PipePages):
	case most > 0 && a.used[descriptors].Load() > most/4*3:
	case a.Open(2) != nil:
	default:
		a.pipes.Add(1)
		return pages, true
	}
	a.pages.Add(-pages)
	return 0, false
}

// ResizePipe corrects what TakePipe took by so many pages: those that the kernel granted in the end.
func (a *Account) ResizePipe(by int64) { a.pages.Add(by) }

// GivePipe gives back a pipe of so many pages.
func (a *Account) GivePipe(pages int64) {
	a.pages.Add(-pages)
	a.Close(2)
	a.pipes.Add(-1)
}

// BuffersExhausted tells whether as many buffers hold bytes as may.
func (a *Account) BuffersExhausted() bool { return a.buffers.Load() >= int64(a.budget.Buffers) }

// TakeBuffer counts a buffer that holds bytes, until GiveBuffer. It may be one more than there may be.
func (a *Account) TakeBuffer() { a.buffers.Add(1) }

// GiveBuffer ends what TakeBuffer began.
func (a *Account) GiveBuffer() { a.buffers.Add(-1) }

// tenant is a Service, and what its clients hold.
type tenant struct {
	name    service.Name
	held    [resources]atomic.Int64
	users   atomic.Int64 // fronts and clients
	elected atomic.Int64 // sessions that it had when it was found to have the most

	mu     sync.Mutex
	yields []yielder // guarded by mu
}

// yielder has sessions, and ends some of them when it is asked to; it does not block.
type yielder interface {
	live() int64
	yield()
}

func (t *tenant) add(y yielder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.yields = append(t.yields, y)
}

func (t *tenant) remove(y yielder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.yields = slices.DeleteFunc(t.yields, func(other yielder) bool { return other == y })
}

func (t *tenant) yield() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var most yielder
	for _, y := range t.yields {
		if most == nil || y.live() > most.live() {
			most = y
		}
	}
	if most != nil {
		most.yield()
	}
}

// tenant finds a Service, for a front of it, until leaveTenant.
func (a *Account) tenant(name service.Name) *tenant {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		a.tenants[name] = t
	}
	t.users.Add(1)
	return t
}

func (a *Account) leaveTenant(t *tenant) {
	if t.users.Add(-1) > 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.users.Load() == 0 && a.tenants[t.name] == t {
		delete(a.tenants, t.name)
	}
}

// holder is a client address of a Service, and what it holds.
type holder struct {
	tenant *tenant
	addr   netip.Addr
	held   [resources]atomic.Int64
	users  int // guarded by the shard's mu
}

type clientKey struct {
	tenant *tenant
	addr   netip.Addr
}

// clientShards spread the clients, so that event loops seldom wait for each other.
const clientShards = 64

type clientShard struct {
	mu   sync.Mutex
	held map[clientKey]*holder // guarded by mu
}

func (a *Account) shard(addr netip.Addr) *clientShard {
	b := addr.As16()
	const golden = 0x9e3779b97f4a7c15 // Knuth's multiplicative hash
	return &a.clients[binary.BigEndian.Uint64(b[8:])*golden>>58]
}

// holder finds a client of a Service, for a connection of it, until leaveHolder.
func (a *Account) holder(t *tenant, addr netip.Addr) *holder {
	s, key := a.shard(addr), clientKey{t, addr}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[key]
	if h == nil {
		h = &holder{tenant: t, addr: addr}
		s.held[key] = h
		t.users.Add(1)
	}
	h.users++
	return h
}

func (a *Account) leaveHolder(h *holder) {
	s := a.shard(h.addr)
	s.mu.Lock()
	h.users--
	last := h.users == 0
	if last {
		delete(s.held, clientKey{h.tenant, h.addr})
	}
	s.mu.Unlock()
	if last {
		a.leaveTenant(h.tenant)
	}
}
