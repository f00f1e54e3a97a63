//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// lab is shared by all proxies: a control plane, and a network with a node for each of them.
type lab struct {
	set    *settings
	report *report
	dir    string // for data and logs
	self   string // path of this program
	net    *topology.Cluster
	api    *cluster.Cluster
}

func newLab(ctx context.Context, s *settings, r *report) (*lab, error) {
	l := &lab{set: s, report: r}
	l.leaveOut()
	if len(s.clients) == 0 {
		return nil, fmt.Errorf("no client can run: %v", r.Skipped)
	}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// leaveOut drops the clients whose programs are not there.
func (l *lab) leaveOut() {
	l.set.clients = slices.DeleteFunc(l.set.clients, func(c client) bool {
		p := c.lacks()
		if p != "" {
			l.report.Skipped = append(l.report.Skipped, fmt.Sprintf("%s: there is no %s", c.name, p))
		}
		return p != ""
	})
}

func (l *lab) open(ctx context.Context) (err error) {
	if l.dir, err = os.MkdirTemp("/run", "flaps"); err != nil { // on the private tmpfs
		return err
	}
	// A server that is not root's reaches its data by this path.
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return err
	}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	l.net, err = topology.NewCluster(ctx, len(l.set.proxies), topology.Options{Pods: l.set.endpoints + 1, Name: "flaps-"})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(l.set.clients, func(c client) bool { return c.name == pgbench }) {
		if err := initPostgres(ctx, l.postgres()); err != nil {
			return err
		}
	}
	l.api, err = cluster.Start(ctx, cluster.Options{Host: l.net.Control, Dir: filepath.Join(l.dir, "api")})
	return err
}

// postgres is the folder that each pod's data is copied from.
func (l *lab) postgres() string { return filepath.Join(l.dir, "postgres") }

// runAll runs the clients by one proxy after the other.
func (l *lab) runAll(ctx context.Context) error {
	for i, p := range l.set.proxies {
		b := l.bed(i, p)
		results, err := b.run(ctx)
		if err := errors.Join(err, b.close()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		l.report.Results = append(l.report.Results, results...)
	}
	return nil
}

func (l *lab) close() error {
	var errs []error
	if l.api != nil {
		errs = append(errs, l.api.Close())
	}
	if l.net != nil {
		errs = append(errs, l.net.Close())
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}
