//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"time"
)

// idleWorkload measures the cost of an idle connection after one exchange, on a newly started proxy.
func idleWorkload() workload {
	return workload{
		name: "idle", label: "idle connections", among: proxies, most: 3,
		figures: []figure{{"kB", "memory of an idle connection, kB", 1}, {"fds", "descriptors of an idle connection", 2},
			{"count", "idle connections held", 0}},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			if err := b.up(); err != nil {
				return nil, err
			}
			time.Sleep(settling)
			before, err := b.footprint()
			if err != nil {
				return nil, err
			}
			n := p.idleConns
			conns, err := b.openConns(n)
			defer closeAll(conns)
			if err != nil {
				return nil, fmt.Errorf("hold %d connections: after %d: %w", n, len(conns), err)
			}
			time.Sleep(settling)
			after, err := b.footprint()
			return figures{
				"kB":  float64(after.bytes-before.bytes) / 1e3 / float64(n),
				"fds": float64(after.descriptors-before.descriptors) / float64(n), "count": float64(n),
			}, err
		},
	}
}

// settling is the time in which a proxy can free the buffers of the last exchange.
const settling = time.Second

// openConns opens n connections and makes one exchange on each.
func (b *bed) openConns(n int) (conns []net.Conn, err error) {
	err = b.net.Client(0).Do(func() error {
		for range n {
			c, err := net.DialTimeout("tcp", service(echoPort).String(), 3*time.Second)
			if err != nil {
				return err
			}
			conns = append(conns, c)
			if err := ask(c); err != nil {
				return err
			}
		}
		return nil
	})
	return conns, err
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}
