//go:build !linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/kernel/flows"
)

// openFlowEvents returns flows.Options.Open: the kernel carries nothing here.
func openFlowEvents(bool) func(begins bool) (flows.Events, error) {
	return func(bool) (flows.Events, error) {
		return nil, fmt.Errorf("conntrack events on %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
}

// listFlows returns flows.Options.List: there are none.
func listFlows(bool) func(context.Context, func([]byte) bool) error {
	return func(context.Context, func([]byte) bool) error { return nil }
}

// accountFlows has nothing to turn on.
func accountFlows(logrus.FieldLogger) (undo func(), timed bool) { return func() {}, false }

// flowTimeouts are of no flows.
func flowTimeouts(logrus.FieldLogger) (t flows.Timeouts) { return t }
