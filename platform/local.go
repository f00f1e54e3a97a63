package platform

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"
)

// LocalSet is the set of the host's own addresses, kept up to date while Run runs. Safe for concurrent use.
type LocalSet struct {
	addrs atomic.Pointer[map[netip.Addr]struct{}]
}

// localRetry is between attempts to follow what changes.
const localRetry = 5 * time.Second

// NewLocalSet returns the set as it is now.
func NewLocalSet() (*LocalSet, error) {
	s := &LocalSet{}
	if err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Contains tells whether addr is an address of this host: loopback, or of any of its interfaces. It never waits.
func (s *LocalSet) Contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if addr.IsLoopback() {
		return true
	}
	_, ok := (*s.addrs.Load())[addr]
	return ok
}

// Run follows the host's addresses until ctx ends. While that fails the set stays as it was; failed is told, and it is
// tried again every 5 s.
func (s *LocalSet) Run(ctx context.Context, failed func(error)) error {
	return again(ctx, failed, func() error { return s.follow(ctx) })
}

// again follows something until ctx ends, anew when that failed.
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
