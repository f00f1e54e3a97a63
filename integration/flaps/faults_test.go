//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

func TestMain(m *testing.M) {
	if run, ok := part(); ok {
		if err := run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	topology.Enter()
	os.Exit(m.Run())
}

// A client meets what a fault is called after, and a server that is well before and after.
func TestFaults(t *testing.T) {
	topology.Require(t, "nft")
	n, err := topology.New(t.Context(), topology.Options{Pods: 1, Name: "flaps-"})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	http, err := choose(allClients(), "curl")
	if err != nil {
		t.Fatal(err)
	}
	p := &pod{host: n.Pod(0), self: self, dir: t.TempDir(), clients: http}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := context.Background() // the servers' too
	if err := p.prepare(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if err := p.serves(ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	for f, want := range map[fault][]kind{
		killed: {refused}, blackHole: {noConnect}, refuses: {refused}, slow: {"", noConnect}, frozen: {noAnswer},
		resets: {wasReset, wasReset},
	} {
		if got := meet(n.Client(0), p); got != "" {
			t.Fatalf("before %s: %s", f, got)
		}
		if err := p.begin(ctx, f); err != nil {
			t.Fatal(err)
		}
		for i, k := range want {
			if got := meet(n.Client(0), p); got != k {
				t.Errorf("%s: connection %d met %q, want %q", f, i, got, k)
			}
		}
		if late, err := p.end(ctx, f, 5*time.Second); late != nil || err != nil {
			t.Fatal(f, late, err)
		}
	}
	if got := meet(n.Client(0), p); got != "" {
		t.Errorf("after all: %s", got)
	}
}

// meet sends a request from a host, and says how it failed.
func meet(from *topology.Host, p *pod) kind {
	const limit = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := from.Dial(ctx, "tcp", fmt.Sprintf("%s:%s", p.host.IPv4, port(p.clients[0].service)))
	if err != nil {
		return kindOf(err.Error())
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return other
	}
	_, err = c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if late, ok := err.(net.Error); ok && late.Timeout() {
		return noAnswer
	}
	if err != nil {
		return kindOf(err.Error())
	}
	return ""
}
