package epoll

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// A header that the endpoint takes later, or piece by piece, still comes whole and before the client's bytes.
func TestHeaderIsSentWhole(t *testing.T) {
	_, e := newEngine(t, 1, splice.Options{})
	defer e.closeLoops()
	s := &e.loops.all[0].stock
	client, src := pair(t)
	dst, endpoint := pair(t)
	var filled int
	for {
		n, e := sysSend(dst, make([]byte, 4096))
		if e != 0 {
			break
		}
		filled += n
	}
	preface, said := bytes.Repeat([]byte("header "), 1000), []byte("first words")
	sysSend(client, said)
	f := flow{unsent: unsent{rest: preface}}
	from, to := socket{fd: src, readable: true}, socket{fd: dst, writable: true}
	if v, e := f.carry(s, &from, &to); v != blocked || e != 0 || to.writable {
		t.Fatalf("progress %d, %v", v, e)
	}
	var got []byte
	for buf := make([]byte, 1000); len(got) < filled+len(preface)+len(said); {
		n, e := sysRecv(endpoint, buf)
		if e != 0 {
			t.Fatalf("after %d bytes: %v", len(got), e)
		}
		got = append(got, buf[:n]...)
		to.writable = true
		if v, e := f.carry(s, &from, &to); v != blocked || e != 0 {
			t.Fatalf("progress %d, %v", v, e)
		}
	}
	want := append(preface, said...)
	if !bytes.Equal(got[filled:], want) || f.carried != int64(len(said)) || !f.empty() {
		t.Errorf("got %d bytes after the filling, want %d; carried %d", len(got)-filled, len(want), f.carried)
	}
}

// pair is two ends of a stream with little room.
func pair(t testing.TB) (int, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 4096))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}
