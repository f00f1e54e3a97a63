package netsh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// waitDelay is how long a killed netsh may keep its output open, through a child that it started.
const waitDelay = 2 * time.Second

// Command runs the netsh of this host.
func Command(ctx context.Context, args ...string) (Result, error) {
	path, err := executable()
	if err != nil {
		return Result{}, err
	}
	return execute(ctx, path, args)
}

func execute(ctx context.Context, path string, args []string) (Result, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, waitDelay
	hideWindow(cmd)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("run %s: killed: %w", path, context.Cause(ctx))
	case err != nil && !errors.As(err, &exit):
		return Result{}, fmt.Errorf("run %s: %w", path, err)
	}
	return Result{Output: decode(out.Bytes()), Code: cmd.ProcessState.ExitCode()}, nil
}

// maxMessage bounds what messages quote of netsh: it prints its manual when it does not understand.
const maxMessage = 200

// message is the output in one line, for people.
func (r Result) message() string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(r.Output, "?")), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
