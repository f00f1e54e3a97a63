//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
)

func run(context.Context, *config.Flags, *config.Config, *logrus.Logger) error {
	return fmt.Errorf("serve on %s: %w: portald carries traffic on Linux", runtime.GOOS, errors.ErrUnsupported)
}

func cleanup(context.Context, *config.Config, *logrus.Logger) error {
	return fmt.Errorf("clean up on %s: %w: portald writes no rules there", runtime.GOOS, errors.ErrUnsupported)
}

func render(context.Context, *config.Config, *logrus.Logger, string, io.Writer) error {
	return fmt.Errorf("render on %s: %w: portald writes no rules there", runtime.GOOS, errors.ErrUnsupported)
}

func prepare(*config.Config, *logrus.Logger) error {
	return fmt.Errorf("prepare %s: %w: portald sets nothing there", runtime.GOOS, errors.ErrUnsupported)
}
