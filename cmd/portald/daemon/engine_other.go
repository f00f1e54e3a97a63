//go:build !linux

package daemon

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/goroutine"
)

const hasEpoll = false

func openEpoll(logrus.FieldLogger) func(*splice.Core) (splice.Engine, error) {
	return func(*splice.Core) (splice.Engine, error) {
		return nil, fmt.Errorf("epoll on %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
}

// engineHost has nothing beyond package net.
func engineHost() goroutine.Host { return goroutine.Host{} }
