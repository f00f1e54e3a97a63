//go:build linux

// Demo shows portald with real traffic: a client, a node and three pods, each in a network namespace that vanishes with
// the program. Each scene checks what it claims; the demo exits with code 1 if a check fails. It needs iptables, and
// root or user namespaces.
//
//	go run ./integration/demo --portald bin/portald
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/topology"
)

func main() {
	program := flag.String("portald", "bin/portald", "`path` of the portald program")
	fast := flag.Bool("fast", false, "do not pause for the reader; without a terminal there are no pauses either")
	flag.Parse()
	topology.Enter()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx, *program, newPage(os.Stdout, *fast))
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted; its network namespaces and processes are removed")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo plays all scenes and removes everything at the end, also after an error.
func demo(ctx context.Context, program string, p *page) error {
	began := time.Now()
	// On Debian the PATH of an ordinary user lacks the directory of iptables.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	program, err := needs(program)
	if err != nil {
		return err
	}
	s, err := newStage(ctx, program)
	if err != nil {
		return err
	}
	show := &show{stage: s, page: p}
	err = show.play(ctx)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w%s", err, s.logTails())
	}
	if err := errors.Join(err, s.close()); err != nil {
		return err
	}
	p.end(len(scenes()), time.Since(began))
	return nil
}

// needs returns the absolute path of the program, or an error that names what is missing and how to install it.
func needs(program string) (string, error) {
	if err := topology.Check(); err != nil {
		return "", fmt.Errorf("%s: run the demo as root, or on a host that allows unprivileged user namespaces",
			strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	var missing []string
	for _, c := range []string{"iptables", "iptables-save", "iptables-restore", "nsenter"} {
		if _, err := exec.LookPath(c); err != nil {
			missing = append(missing, c)
		}
	}
	if missing != nil {
		return "", fmt.Errorf("commands are missing: %s: apt-get install iptables util-linux", strings.Join(missing, ", "))
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("find portald: %w: make build", err)
	}
	return filepath.Abs(program)
}
