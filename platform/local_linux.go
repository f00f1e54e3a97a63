package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// localGather is how long changes are gathered before all addresses are read again.
const localGather = 100 * time.Millisecond

var errSubscriptionEnded = errors.New("the netlink subscription ended")

// follow reads all addresses again when the kernel reports changes, until ctx ends or something fails.
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
	gather := time.NewTimer(0) // changes before the subscription
	defer gather.Stop()
	waiting := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changed:
			if !ok {
				return fmt.Errorf("follow local addresses: %w", errSubscriptionEnded)
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
