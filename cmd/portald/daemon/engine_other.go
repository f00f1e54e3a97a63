//go:build !linux

package daemon

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession"
)

const hasEpoll = false

func openEpoll(*succession.Keeper, logrus.FieldLogger) func(*splice.Core) (splice.Engine, error) {
	return func(*splice.Core) (splice.Engine, error) {
		return nil, fmt.Errorf("epoll on %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
}
