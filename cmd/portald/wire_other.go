//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func run(context.Context, *options) error {
	return fmt.Errorf("serve on %s: %w: portald carries traffic on Linux", runtime.GOOS, errors.ErrUnsupported)
}

func cleanup(context.Context, *options) error {
	return fmt.Errorf("clean up on %s: %w: portald writes no rules there", runtime.GOOS, errors.ErrUnsupported)
}
