package platform

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func sh(ctx context.Context, script, stdin string) (string, error) {
	out, err := Run(ctx, "sh", []string{"-c", script}, []byte(stdin))
	return string(out), err
}

func TestRun(t *testing.T) {
	out, err := sh(t.Context(), "cat; echo $LC_ALL", "in ")
	if err != nil || out != "in C\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestRunTellsWhatFailed(t *testing.T) {
	_, err := sh(t.Context(), "echo out; echo no such rule >&2; exit 4", "")
	var command *CommandError
	if !errors.As(err, &command) || command.Stderr != "no such rule" {
		t.Fatalf("got %v, want a CommandError with what the command said", err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 4 {
		t.Errorf("%v does not tell the exit code 4", err)
	}
	if want := "exit status 4: no such rule"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q lacks %q", err, want)
	}
	if _, err := Run(t.Context(), "no-such-command-anywhere", nil, nil); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("an unknown command: %v", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	// The child of the shell keeps the output open after the shell is killed.
	_, err := sh(ctx, "sleep 6; true", "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a deadline", err)
	}
	if took := time.Since(start); took > 2*waitDelay {
		t.Errorf("it took %s", took)
	}
}

func TestRunBoundsOutput(t *testing.T) {
	if _, err := sh(t.Context(), "head -c 70000000 /dev/zero", ""); !errors.Is(err, ErrOutput) {
		t.Errorf("70 MB of output: %v", err)
	}
	_, err := sh(t.Context(), "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1", "")
	var command *CommandError
	if !errors.As(err, &command) || len(command.Stderr) != maxStderr {
		t.Errorf("the error quotes %d bytes, want %d", len(command.Stderr), maxStderr)
	}
}

func TestRunWithInputNobodyReads(t *testing.T) {
	if _, err := sh(t.Context(), "exit 0", strings.Repeat("x", 1<<20)); err != nil {
		t.Error(err)
	}
}
