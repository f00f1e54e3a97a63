package platform

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"
)

// LocalSet is the set of the host's addresses, up to date while Run runs. Safe for concurrent use.
type LocalSet struct {
	addrs atomic.Pointer[map[netip.Addr]struct{}]
}

// localRetry is the time between attempts to follow changes.
const localRetry = 5 * time.Second

// NewLocalSet returns the current set.
func NewLocalSet() (*LocalSet, error) {
	s := &LocalSet{}
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
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(localRetry):
		}
	}
}

func (s *LocalSet) read() error {
	found, err := LocalAddresses()
	if err != nil {
		return err
	}
	addrs := make(map[netip.Addr]struct{}, len(found))
	for _, a := range found {
		addrs[a] = struct{}{}
	}
	s.addrs.Store(&addrs)
	return nil
}
