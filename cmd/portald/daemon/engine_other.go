//go:build !linux

package daemon

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/splice"
)

// openEngine returns an error: the engine of event loops needs epoll.
func openEngine(logrus.FieldLogger) func(*splice.Core) (splice.Engine, error) {
	return func(*splice.Core) (splice.Engine, error) {
		return nil, fmt.Errorf("open an engine on %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
}
