//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/wine"
	"github.com/portald/portald/integration/winnode"
)

func startPortaldExe(b *bed) ([]string, error) {
	if err := b.manifests(0); err != nil {
		return nil, err
	}
	return b.system.Line(b.lab.windows.Portald, b.what()...)
}

// build builds portald.exe if it is to be measured.
func (p plan) build(ctx context.Context, l *lab) (err error) {
	if slices.ContainsFunc(p.competitors, func(c competitor) bool { return c.windows }) {
		l.windows, err = winnode.Build(ctx, l.dir, l.self, asWine)
	}
	return err
}

// asWine is the first argument of this program where it starts one under Wine. A process of its own takes on the
// settings that Wine needs: a filter of system calls, which would cost all others time.
const asWine = "wine"

// startUnderWine replaces this process by a command. It returns only if it fails.
func startUnderWine(line []string) error {
	path, err := exec.LookPath(line[0])
	if err := errors.Join(err, wine.BindExactly()); err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", path, unix.Exec(path, line, os.Environ()))
}
