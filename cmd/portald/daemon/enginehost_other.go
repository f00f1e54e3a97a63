//go:build !linux && !windows

package daemon

import "github.com/portald/portald/proxy/splice/goroutine"

// engineHost has nothing beyond package net.
func engineHost() goroutine.Host { return goroutine.Host{} }
