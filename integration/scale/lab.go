//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

const clusterCIDR = "10.244.0.0/16"

// lab is shared by all measurements: a control plane with Services, and a node for each measurement.
type lab struct {
	set   *settings
	dir   string
	net   *topology.Cluster
	api   *cluster.Cluster
	stock *stock
	used  int // nodes
}

func newLab(ctx context.Context, s *settings) (*lab, error) {
	l := &lab{set: s}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) open(ctx context.Context) (err error) {
	if l.dir, err = os.MkdirTemp("/run", "scale"); err != nil { // on the private tmpfs
		return err
	}
	if l.set.logs == "" {
		l.set.logs = l.dir
	}
	options := topology.Options{Clients: 1, Pods: 2, Name: "scale-"}
	if l.net, err = topology.NewCluster(ctx, len(l.set.proxies)*len(l.set.sizes), options); err != nil {
		return err
	}
	l.api, err = cluster.Start(ctx, cluster.Options{Host: l.net.Control, Dir: filepath.Join(l.dir, "api")})
	if err != nil {
		return err
	}
	url, err := l.api.EtcdURL()
	if err != nil {
		return err
	}
	l.stock = newStock(l.api, url, l.set.endpoints)
	return l.stock.open(ctx)
}

// restAfterFill is for the API server and controllers to read what is new, so that the first proxy waits for none.
const restAfterFill = 10 * time.Second

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (l *lab) runAll(ctx context.Context, r *report) error {
	for _, size := range l.set.sizes {
		took, err := l.stock.fill(ctx, size)
		if err != nil {
			return err
		}
		progress("%d Services with %d endpoints each, made in %.0f s", size, l.set.endpoints, took.Seconds())
		if err := rest(ctx, restAfterFill); err != nil {
			return err
		}
		for _, p := range l.set.proxies {
			one, err := l.measure(ctx, p, size)
			if err != nil {
				return fmt.Errorf("%s with %d Services: %w", p.name(), size, err)
			}
			r.Lines = append(r.Lines, one)
			progress("%s", one.short())
		}
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
