//go:build !linux && !windows

package daemon

import (
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/goroutine"
)

// openGoroutine opens the engine of goroutines with nothing beyond package net.
func openGoroutine() func(*splice.Core) (splice.Engine, error) {
	return goroutine.Open(goroutine.Host{})
}
