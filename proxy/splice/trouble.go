package splice

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// ErrTransparent is what Options.Trouble is told, once in a while, when endpoints see this node's address although the
// policy says that they are to see the client's.
var ErrTransparent = errors.New("the kernel grants no transparent socket, so endpoints see this node's address")

// seldom keeps what may happen with every connection from being told as often. Safe for concurrent use.
type seldom struct{ due atomic.Int64 }

// seldomEvery is how often it is told.
const seldomEvery = 10 * time.Second

// now tells whether it is time, on the loops' clocks.
func (s *seldom) now(clock time.Duration) bool {
	due := s.due.Load()
	return int64(clock) >= due && s.due.CompareAndSwap(due, int64(clock+seldomEvery))
}

// PortsError is what Options.Trouble is told, once in a while, before connections fail for it: most of the local ports
// towards an endpoint are in use.
type PortsError struct{ Endpoint netip.AddrPort }

func (e *PortsError) Error() string {
	return fmt.Sprintf("most of the local ports towards %s are in use", e.Endpoint)
}

func (c *Core) opaque(errno error) {
	if c.opaqueTold.now(time.Since(c.start)) {
		c.opts.Trouble(fmt.Errorf("%w: %w", ErrTransparent, errno))
	}
}
