//go:build !linux

package daemon

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/kube/watch"
)

// Prepare has no settings to set here.
func Prepare(*config.Config, logrus.FieldLogger) error {
	return fmt.Errorf("prepare %s: %w: portald sets nothing there", runtime.GOOS, errors.ErrUnsupported)
}

// prepareNode has no settings to set here.
func prepareNode(*config.Config, *watch.Recorder, logrus.FieldLogger) {}

// checkForwarding knows no setting of forwarding here.
func checkForwarding(logrus.FieldLogger) {}
