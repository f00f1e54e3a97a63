//go:build !linux

package daemon

import "context"

// keepFlows has nothing to do: no system but Linux translates flows.
func (d *daemon) keepFlows(context.Context) error { return nil }
