//go:build !linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
)

// Run refuses to run: portals lead to listeners and endpoints on Linux alone.
func Run(context.Context, *config.Flags, *config.Config, *logrus.Logger, string) error {
	return fmt.Errorf("serve on %s: %w: portald carries traffic on Linux", runtime.GOOS, errors.ErrUnsupported)
}

// Prepare has no settings to set here.
func Prepare(*config.Config, logrus.FieldLogger) error {
	return fmt.Errorf("prepare %s: %w: portald sets nothing there", runtime.GOOS, errors.ErrUnsupported)
}
