//go:build !linux

package iptables

import (
	"errors"
	"fmt"
	"runtime"
)

// present returns an error: only Linux has iptables.
func present(f family, _ string) error {
	return fmt.Errorf("%s on %s: %w", f.command, runtime.GOOS, errors.ErrUnsupported)
}
