package platform

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
)

// LocalSet is the set of the host's own addresses, kept up to date while Run runs. Safe for concurrent use.
type LocalSet struct {
	addrs atomic.Pointer[map[netip.Addr]struct{}]
}

const (
	localGather = 100 * time.Millisecond // how long changes are gathered before all is read once
	localRetry  = 5 * time.Second        // between attempts to follow them
)

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

var errSilent = errors.New("the kernel's notices ended")

// follow reads the addresses anew when the kernel tells of changes, until ctx ends or something fails.
func (s *LocalSet) follow(ctx context.Context) error {
	changed, done := make(chan netlink.AddrUpdate), make(chan struct{})
	if err := netlink.AddrSubscribe(changed, done); err != nil {
		return fmt.Errorf("subscribe to local addresses: %w", err)
	}
	defer func() {
		close(done)
		for range changed { // it is closed once its sender has ended
		}
	}()
	gather := time.NewTimer(0) // what changed before there was a subscription
	defer gather.Stop()
	waiting := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changed:
			if !ok {
				return fmt.Errorf("follow local addresses: %w", errSilent)
			}
			if !waiting {
				waiting = true
				gather.Reset(localGather)
			}
		case <-gather.C:
			waiting = false
			if err := s.read(); err != nil {
				return err
			}
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
