//go:build !linux

package platform

import (
	"context"
	"time"
)

// localRefresh is the period of reading the addresses, where the system reports no changes.
const localRefresh = 5 * time.Second

// follow reads the addresses again and again until ctx ends or something fails.
func (s *LocalSet) follow(ctx context.Context) error {
	tick := time.NewTicker(localRefresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.read(); err != nil {
				return err
			}
		}
	}
}
