//go:build !linux

package daemon

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/splice"
)

// keepFlows has nothing to do: no system but Linux translates flows.
func keepFlows(context.Context, *splice.Core, logrus.FieldLogger) error { return nil }
