package quota

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/portald/portald/portal/service"
)

// Budget is how much of the host's resources the data path may take. A zero field means no bound, or the default that
// it names.
type Budget struct {
	Descriptors int // of connections (two each), UDP sessions, pipes (two each), listeners and event loops
	Sessions    int // UDP sessions, each of which takes a local port of the host
	PipePages   int // slots of pipes: the kernel bounds them for all processes of a user; default DefaultPipePages
	Buffers     int // of 64 KiB, with bytes that a peer does not take; default DefaultBuffers
	Kept        int // connections that are kept for a successor
}

// The defaults: a quarter of fs.pipe-user-pages-soft as the kernel sets it, and 32 MiB.
const (
	DefaultPipePages = 16384 / 4
	DefaultBuffers   = 512
)

// bufferSize is the size of one of Budget.Buffers, in bytes.
const bufferSize = 64 << 10

// clientBytesPart is which part of the memory of all buffers may be used, in addition to these, for ClientBytes.
const clientBytesPart = 4

// payloadBytesPart is the same for PayloadBytes.
const payloadBytesPart = 2

// Errors that say what is scarce.
var (
	ErrDescriptors = fmt.Errorf("descriptors are scarce: %w", syscall.EMFILE)
	ErrSessions    = errors.New("UDP sessions are scarce")
)

// Resource is a kind of what the account counts.
type Resource uint8

// The resources.
const (
	Descriptors Resource = iota
	listeners            // which take descriptors, too
	Sessions
	Kept         // connections, with who keeps them
	ClientBytes  // of clients that are kept to be sent later, or again
	PayloadBytes // of open connections, kept for who debugs a Service
	resources
)

// Account counts who has taken how much of a Budget, and decides who may take more. Safe for concurrent use.
type Account struct {
	Buffers Buffers

	most [resources]int64

	_    [64]byte // another cache line: what follows is written for each connection, by all loops
	used [resources]atomic.Int64

	Pipes Pipes

	services  services
	addresses [addressShards]addressShard
	networks  networks
}

// NewAccount returns an account of which nothing is taken.
func NewAccount(b Budget) *Account {
	if b.PipePages == 0 {
		b.PipePages = DefaultPipePages
	}
	if b.Buffers == 0 {
		b.Buffers = DefaultBuffers
	}
	a := &Account{Buffers: Buffers{most: int64(b.Buffers)}}
	a.Pipes.account, a.Pipes.most = a, int64(b.PipePages)
	a.most[Descriptors], a.most[Sessions], a.most[Kept] = int64(b.Descriptors), int64(b.Sessions), int64(b.Kept)
	a.most[ClientBytes] = int64(b.Buffers) * bufferSize / clientBytesPart
	a.most[PayloadBytes] = int64(b.Buffers) * bufferSize / payloadBytesPart
	a.services.begin()
	for i := range a.addresses {
		a.addresses[i].begin()
	}
	a.networks.begin()
	return a
}

// Used is how much of a resource is taken.
func (a *Account) Used(r Resource) int64 { return a.used[r].Load() }

// Most is how much there is of a resource; 0: there is no limit.
func (a *Account) Most(r Resource) int64 { return a.most[r] }

// Open takes n descriptors that no Service or client is charged for, such as listeners' own. ErrDescriptors: so many
// are not left.
func (a *Account) Open(n int) error {
	if used := a.used[Descriptors].Add(int64(n)); a.most[Descriptors] > 0 && used > a.most[Descriptors] {
		a.Close(n)
		return ErrDescriptors
	}
	return nil
}

// Close gives back what Open took.
func (a *Account) Close(n int) { a.used[Descriptors].Add(-int64(n)) }

// Service finds a Service, for a front of it, until Service.Leave.
func (a *Account) Service(name service.Name) *Service { return a.services.enter(a, name) }

// Known is a Service that has fronts or clients, nil if it has none.
func (a *Account) Known(name service.Name) *Service { return a.services.known(name) }

// exceeds tells whether a client has more than its share of a resource of which so much is used.
func (a *Account) exceeds(r Resource, c *Client, used int64) bool {
	free := a.free(r, used)
	return c.left(r, free) < 0 || c.address.left(r, free) < 0
}

// free is how much clients may still take of a resource of which so much is used.
func (a *Account) free(r Resource, used int64) float64 {
	free := a.most[r] - used
	if r == Descriptors {
		free -= a.most[r] / forListeners
	}
	return float64(free)
}

// forListeners is which part of the descriptors connections leave free, for the listeners of new Services.
const forListeners = 16
