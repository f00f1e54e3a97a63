// Package platform has the calls to the operating system that portald needs: commands, limits, sysctls, local
// addresses, routes and the conntrack table. Where a system lacks one, it returns errors.ErrUnsupported or nothing, so
// that callers compile everywhere. It knows nothing of Services or portals.
package platform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// MaxOutput bounds what Run keeps of a command's standard output, in bytes. The rules of 100,000 portals are some
// 15 MB of text.
const MaxOutput = 64 << 20

// maxStderr bounds what an error quotes of a command's standard error, in bytes.
const maxStderr = 4 << 10

// waitDelay is how long Run waits for a killed command's children to close its output.
const waitDelay = 10 * time.Second

// ErrOutput is the error of a command that wrote more than MaxOutput.
var ErrOutput = errors.New("too much output")

// CommandError is a command that failed, with its standard error.
type CommandError struct {
	Name   string
	Args   []string
	Stderr string // trimmed, at most 4 KiB
	Err    error
}

func (e *CommandError) Error() string {
	said := ""
	if e.Stderr != "" {
		said = ": " + e.Stderr
	}
	return fmt.Sprintf("run %s: %v%s", strings.Join(append([]string{e.Name}, e.Args...), " "), e.Err, said)
}

func (e *CommandError) Unwrap() error { return e.Err }

// Run runs a command to its end in the C locale, feeds it stdin, and returns its standard output. The command is killed
// when ctx ends. Every error is a *CommandError.
func Run(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error) {
	stdout, stderr := limited{left: MaxOutput}, limited{left: maxStderr}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = waitDelay
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && stdout.over {
		err = fmt.Errorf("%w: more than %d bytes", ErrOutput, MaxOutput)
	}
	if err != nil {
		return nil, &CommandError{name, args, strings.TrimSpace(stderr.text.String()), err}
	}
	return stdout.text.Bytes(), nil
}

// limited keeps the first bytes written to it and swallows the rest, so that the command can end.
type limited struct {
	text bytes.Buffer
	left int
	over bool
}

var _ io.Writer = (*limited)(nil)

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.left)
	l.text.Write(p[:keep])
	l.left -= keep
	l.over = l.over || keep < len(p)
	return len(p), nil
}
