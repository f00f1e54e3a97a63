//go:build linux

package main

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

func TestCommand(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, test := range []struct {
		name, script string
		want         kind
	}{
		{"goes well", "read it; test $it = in", ""},
		{"fails", "echo Connection refused >&2; exit 3", refused},
		{"is too slow", "exec sleep 5", noAnswer},
		{"waits for an answer", "exec 3<>/dev/tcp/" + strings.Replace(silent.Addr().String(), ":", "/", 1) + "; exec sleep 5",
			noAnswer},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if k, said := (command{path: "bash", args: []string{"-c", test.script}, in: "in\n"}).run(ctx); k != test.want {
			t.Errorf("%s: %q (%s), want %q", test.name, k, said, test.want)
		}
		cancel()
	}
}

// The kernel's states of sockets: connected, and reset by the other side.
func TestSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	end, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	all := sockets(os.Getpid())
	if len(all) < 2 {
		topology.Lack(t, "needs pidfd_getfd")
	}
	if k := all.late(); k != noAnswer {
		t.Errorf("late: %s", k)
	}
	resetting(end.(*net.TCPConn), false)
	if k := waitDead(); k != wasReset {
		t.Errorf("after a reset: %q, want %q", k, wasReset)
	}
}

// waitDead gives the reset time to arrive.
func waitDead() (k kind) {
	for range 100 {
		if k = sockets(os.Getpid()).dead(); k != "" {
			return k
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}
