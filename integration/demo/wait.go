//go:build linux

package main

import (
	"context"
	"time"
)

// timeout is the limit for operations that normally take milliseconds.
const timeout = 10 * time.Second

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
