package platform

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/backoff"
)

// LocalSet is the set of the host's addresses, up to date while Run runs. Safe for concurrent use.
type LocalSet struct {
	addrs   atomic.Pointer[map[netip.Addr]struct{}]
	node    atomic.Pointer[[]netip.Addr]
	without string
	changed chan struct{}
}

// localRetry is the time between attempts to follow changes.
const localRetry = 5 * time.Second

// NewLocalSet returns the current set. Node leaves out what portald gives an interface of that name: addresses of
// Services.
func NewLocalSet(without string) (*LocalSet, error) {
	s := &LocalSet{without: without, changed: make(chan struct{}, 1)}
	if err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Contains tells whether addr is an address of this host: loopback, or of any of its interfaces. It never blocks.
func (s *LocalSet) Contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if addr.IsLoopback() {
		return true
	}
	_, ok := (*s.addrs.Load())[addr]
	return ok
}

// Run follows the host's addresses until ctx ends. If that fails it calls failed, and tries again every 5 s; meanwhile
// the set does not change.
func (s *LocalSet) Run(ctx context.Context, failed func(error)) error {
	return again(ctx, failed, func() error { return s.follow(ctx) })
}

// again calls follow until ctx ends, and failed each time that follow fails.
func again(ctx context.Context, failed func(error), follow func() error) error {
	for {
		err := follow()
		if ctx.Err() != nil {
			return nil
		}
		failed(err)
		if backoff.Sleep(ctx, localRetry) != nil {
			return nil
		}
	}
}

// Node returns the addresses by which others know this host, in order, to which sockets can be bound: all but loopback
// and link-local addresses, addresses that the set was made without, and addresses of which the host does not know yet
// whether another has them. It never blocks, and the caller does not change it.
func (s *LocalSet) Node() []netip.Addr { return *s.node.Load() }

// Changed receives after a change of Node.
func (s *LocalSet) Changed() <-chan struct{} { return s.changed }

func (s *LocalSet) read() error {
	all, node, err := localAddresses(s.without)
	if err != nil {
		return err
	}
	addrs := make(map[netip.Addr]struct{}, len(all))
	for _, a := range all {
		addrs[a] = struct{}{}
	}
	s.addrs.Store(&addrs)
	if was := s.node.Swap(&node); was != nil && !slices.Equal(*was, node) {
		select {
		case s.changed <- struct{}{}:
		default: // it has not been received yet
		}
	}
	return nil
}
