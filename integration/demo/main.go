//go:build linux

// Demo shows portald at work on real traffic: a client, a node and three pods in network namespaces of their own, which
// vanish with the program. Each scene checks what it says; the demo ends with exit code 1 where something is not so. It
// needs root or user namespaces, and iptables.
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
	fast := flag.Bool("fast", false, "make no pauses for the reader; there are none either where output is no terminal")
	flag.Parse()
	topology.Enter()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx, *program, newPage(os.Stdout, *fast))
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted; its namespaces are gone, and nothing is left behind")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo plays all scenes, and takes everything down whatever happens.
func demo(ctx context.Context, program string, p *page) error {
	began := time.Now()
	// An ordinary user's PATH on Debian leaves out where iptables is.
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
		err = fmt.Errorf("%w%s", err, s.portald.lastWords())
	}
	if err := errors.Join(err, s.close()); err != nil {
		return err
	}
	p.end(len(scenes()), time.Since(began))
	return nil
}

// needs returns the absolute path of the program, or an error that names what is missing and where it comes from.
func needs(program string) (string, error) {
	if err := topology.Check(); err != nil {
		return "", fmt.Errorf("%s: run it as root, or where users may make user namespaces", strings.ReplaceAll(err.Error(),
			"\n", "; "))
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
