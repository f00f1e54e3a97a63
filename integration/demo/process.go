//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
)

// process is a program that runs on the node.
type process struct {
	cmd   *exec.Cmd
	name  string
	log   string // path of its own log
	ended chan struct{}
	err   error // result of Wait, valid once ended is closed
}

// startProcess starts a program. It ends by stop or kill, not with ctx.
func startProcess(
	ctx context.Context, node *topology.Host, log, name, program string, args ...string,
) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, ended: make(chan struct{})}
	p.cmd = node.Command(context.WithoutCancel(ctx), program, args...)
	p.cmd.Stderr = file
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	defer close(p.ended)
	p.err = p.cmd.Wait()
}

// pid is that of the program: nsenter becomes it.
func (p *process) pid() int { return p.cmd.Process.Pid }

// stop sends SIGTERM and returns an error unless the process exits with code 0 in time. It may be called again.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(unix.SIGTERM) // it may have ended
	return p.exit()
}

// interrupt is stop by SIGINT, as Ctrl-C sends it.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(unix.SIGINT) // it may have ended
	return p.exit()
}

// exit waits for the end of the process, and returns an error unless it exits with code 0 in time.
func (p *process) exit() error {
	select {
	case <-p.ended:
	case <-time.After(timeout):
		_ = p.cmd.Cancel()
		<-p.ended
	}
	if p.err != nil {
		return fmt.Errorf("stop %s: %w", p.name, p.err)
	}
	return nil
}

// kill sends SIGKILL, and waits until the process has ended by that.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("kill %s: it ended with %v", p.name, p.cmd.ProcessState)
	}
	p.err = nil // as it should
	return nil
}

// until polls done until it returns true, ctx ends, or the process ends.
func (p *process) until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-p.ended:
			if done() {
				return nil
			}
			return fmt.Errorf("wait for %s: %s has ended", what, p.name)
		}
	}
	return nil
}

// said waits for a line in the log that contains a text, and returns its message and fields.
func (p *process) said(ctx context.Context, text string) (line string, err error) {
	err = p.until(ctx, fmt.Sprintf("%q in the log of %s", text, p.name), func() bool {
		line = p.find(text)
		return line != ""
	})
	return line, err
}

// find returns message and fields of the first complete line of the log that contains a text.
func (p *process) find(text string) string {
	log, _ := os.ReadFile(p.log) // the next try may succeed
	for l := range strings.Lines(string(log)) {
		if strings.Contains(l, text) && strings.HasSuffix(l, "\n") {
			_, message, _ := strings.Cut(strings.TrimSpace(l), " msg=")
			return strings.ReplaceAll(message, `"`, "")
		}
	}
	return ""
}

// logTail returns the last lines of the log, for an error.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "\nthe log of " + p.name + " ends:\n  " + strings.Join(lines[max(0, len(lines)-8):], "\n  ")
}
