package platform

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// tcpPair returns two ends of a connection, the second as descriptor that keeps urgent bytes in the stream.
func tcpPair(t *testing.T) (*net.TCPConn, uintptr) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	file, err := b.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	t.Cleanup(func() { file.Close() })
	if err := ListenOptions(file.Fd(), inet.TCP); err != nil {
		t.Fatal(err)
	}
	return a.(*net.TCPConn), file.Fd()
}

func TestReceive(t *testing.T) {
	a, fd := tcpPair(t)
	raw, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string, urgent bool) func() {
		return func() { raw.Write(func(fd uintptr) bool { _, err = Send(fd, []byte(text), urgent); return true }) }
	}
	buf := make([]byte, 4)
	for _, c := range []struct {
		after           func()
		want            string
		urgent, drained bool
		err             error
	}{
		{after: func() {}, drained: true, err: unix.EAGAIN},
		{after: say("one", false), want: "one", drained: true},
		{after: say("four", false), want: "four"}, // there may be more
		{after: func() {}, drained: true, err: unix.EAGAIN},
		{after: say("u", true), want: "u", urgent: true},
		{after: say("abU", true), want: "ab"}, // up to the urgent byte
		{after: func() {}, want: "U", urgent: true},
		{after: func() { say("end", false)(); a.CloseWrite() }, want: "end"},
		{after: func() {}, want: ""},
	} {
		c.after()
		time.Sleep(20 * time.Millisecond)
		n, urgent, drained, err := Receive(fd, buf)
		if string(buf[:n]) != c.want || urgent != c.urgent || drained != c.drained || err != c.err {
			t.Errorf("got %q, urgent %t, drained %t, %v; want %+v", buf[:n], urgent, drained, err, c)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
