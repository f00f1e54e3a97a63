//go:build !windows

package netsh

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

func executable() (string, error) {
	return "", fmt.Errorf("find netsh: %w: it is part of Windows, and this is %s", errors.ErrUnsupported, runtime.GOOS)
}

func hideWindow(*exec.Cmd) {}

func decode(out []byte) string { return string(out) }
