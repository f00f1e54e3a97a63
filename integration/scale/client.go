//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/portald/portald/integration/topology"
)

// askWithin is the time for one connection, and askPause that between two.
const (
	askWithin = 300 * time.Millisecond
	askPause  = time.Millisecond
)

// client dials one address from a host again and again.
type client struct {
	probes chan probe
}

type probe struct {
	want  string
	until time.Time
	seen  chan<- time.Time // when the wanted server answered; zero: not before the end
}

// dialFrom starts a client that ends with ctx.
func dialFrom(ctx context.Context, h *topology.Host, address string) *client {
	c := &client{probes: make(chan probe)}
	go func() {
		_ = h.Do(func() error { // one thread for all: to make one takes longer than to dial
			for {
				select {
				case <-ctx.Done():
					return nil
				case q := <-c.probes:
					q.seen <- q.answer(ctx, address)
				}
			}
		})
	}()
	return c
}

func (q probe) answer(ctx context.Context, address string) time.Time {
	for ctx.Err() == nil && time.Now().Before(q.until) {
		if ask(ctx, address) == q.want {
			return time.Now()
		}
		time.Sleep(askPause)
	}
	return time.Time{}
}

// ask returns the name of the server that answers.
func ask(ctx context.Context, address string) string {
	dialer := net.Dialer{Timeout: askWithin}
	conn, err := dialer.DialContext(ctx, "tcp4", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askWithin)) // it is open
	name, _ := io.ReadAll(conn)
	return string(name)
}

// watch starts to look for a server's answer.
func (c *client) watch(want string, within time.Duration) <-chan time.Time {
	seen := make(chan time.Time, 1)
	c.probes <- probe{want, time.Now().Add(within), seen}
	return seen
}

// serve answers each connection to a pod with a name until ctx ends.
func serve(ctx context.Context, pod *topology.Host, name string) error {
	l, err := pod.Listen("tcp4", net.JoinHostPort("0.0.0.0", "7001"))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, name) // the client may have gone
			conn.Close()
		}
	}()
	return nil
}
