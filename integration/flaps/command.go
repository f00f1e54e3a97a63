//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"time"
)

func port(a netip.AddrPort) string { return fmt.Sprint(a.Port()) }

// command is an operation: a program that runs once, with its standard input.
type command struct {
	path  string
	args  []string
	in    string
	spins bool // it does not end when a connection fails, and has to be watched
}

const watchPeriod = 100 * time.Millisecond

func (c command) run(ctx context.Context) (kind, string) {
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(c.in), &said
	var late kind
	cmd.Cancel = func() error {
		late = sockets(cmd.Process.Pid).late()
		return cmd.Process.Kill()
	}
	if err := cmd.Start(); err != nil {
		return other, err.Error()
	}
	var found kind
	ended := make(chan struct{})
	var wg sync.WaitGroup
	if c.spins {
		wg.Go(func() { found = watch(cmd, ended) })
	}
	err := cmd.Wait()
	close(ended)
	wg.Wait()
	switch {
	case err == nil && !failedSilently(said.String()):
		return "", ""
	case found != "":
		return found, "it did not end: " + said.String()
	case late != "":
		return late, "killed after its time: " + said.String()
	}
	return kindOf(said.String()), fmt.Sprintf("%v: %s", err, said.String())
}

// watch kills a program when one of its connections has failed and it takes no notice. A socket that is new looks like
// one that failed, but not for long.
func watch(cmd *exec.Cmd, ended <-chan struct{}) kind {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	var last kind
	for {
		select {
		case <-ended:
			return ""
		case <-tick.C:
		}
		dead := sockets(cmd.Process.Pid).dead()
		if dead != "" && dead == last {
			_ = cmd.Process.Kill() // it may have ended
			return dead
		}
		last = dead
	}
}

// failedSilently tells what redis-benchmark says when the connection fails on which it asks for the server's
// configuration, and goes on.
func failedSilently(said string) bool { return strings.Contains(said, "Could not fetch server CONFIG") }

// sayings are the error messages of programs; the first match counts.
var sayings = []struct {
	text string
	kind kind
}{
	{"starting up", wrongAnswer}, {"shutting down", wrongAnswer}, {"recovery", wrongAnswer},
	{"refused", refused},
	{"timed out", noConnect}, {"i/o timeout", noConnect},
	{"reset", wasReset}, {"closed", wasReset}, {"Empty reply", wasReset}, {"EOF", wasReset}, {"roken pipe", wasReset},
	{"fetch server CONFIG", wasReset}, {"disconnected", wasReset},
}

func kindOf(said string) kind {
	for _, s := range sayings {
		if strings.Contains(said, s.text) {
			return s.kind
		}
	}
	return other
}
