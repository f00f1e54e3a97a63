package splicetest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// serveTCP runs a TCP server until the scenario ends.
func serveTCP(t testing.TB, host string, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go accept(ln, handle)
	return addrOf(ln.Addr())
}

func accept(ln net.Listener, handle func(*net.TCPConn)) {
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, in the test of that
			time.Sleep(time.Millisecond)
			continue
		}
		go func() {
			defer c.Close()
			handle(c.(*net.TCPConn))
		}()
	}
}

// echoServer sends all that it receives back.
func echoServer(t testing.TB) netip.AddrPort {
	t.Helper()
	return serveTCP(t, loopback, echo)
}

// idleServer accepts connections and neither reads nor writes until the scenario ends.
func idleServer(t testing.TB) netip.AddrPort {
	t.Helper()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	return serveTCP(t, loopback, func(*net.TCPConn) { <-hold })
}

func echo(c *net.TCPConn) {
	io.Copy(c, c)
	c.CloseWrite()
}

func dialTCP(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(longest))
	return c.(*net.TCPConn)
}

// exchange sends one byte and waits for it to come back: the connection is established all the way then.
func exchange(t testing.TB, c net.Conn) {
	t.Helper()
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// wantEcho sends a word, ends its direction and expects the word back and the end.
func wantEcho(t testing.TB, c *net.TCPConn, word string) {
	t.Helper()
	c.Write([]byte(word))
	c.CloseWrite()
	wantRest(t, c, word)
}

// wantRest expects this and then the end of the stream.
func wantRest(t testing.TB, c net.Conn, want string) {
	t.Helper()
	if got, err := io.ReadAll(c); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// wantReset dials and expects a reset, be it that early that dialling sees it.
func wantReset(t testing.TB, at netip.AddrPort) {
	t.Helper()
	c, err := net.Dial("tcp", at.String())
	if err == nil {
		defer c.Close()
		c.SetDeadline(time.Now().Add(longest))
		_, err = c.Read(make([]byte, 1))
	}
	if !seenAsReset(t, err) {
		t.Errorf("client sees %v, want a reset", err)
	}
}

// seenAsReset tells whether a read that may have begun after a reset had come returned what it returns then on this
// system. Under Wine that is the end of the stream.
func seenAsReset(t testing.TB, err error) bool {
	t.Helper()
	return isReset(err) || errors.Is(err, io.EOF) && resetsMayBeEnds(t)
}

// resetsMayBeEnds tells whether this is such a system.
func resetsMayBeEnds(t testing.TB) bool {
	t.Helper()
	return errors.Is(readAfterReset(t), io.EOF)
}

// awaitReader lets a moment pass before a reset, in which its peer begins to read: see seenAsReset.
func awaitReader() { time.Sleep(50 * time.Millisecond) }

// readAfterReset returns what a socket of this system returns when it is read some time after its peer reset it.
func readAfterReset(t testing.TB) error {
	t.Helper()
	done := make(chan struct{})
	c := dialTCP(t, serveTCP(t, loopback, func(c *net.TCPConn) {
		c.Read(make([]byte, 1)) // so that the dial has returned
		reset(c)
		close(done)
	}))
	c.Write([]byte{'x'})
	<-done
	time.Sleep(10 * time.Millisecond)
	_, err := c.Read(make([]byte, 1))
	return err
}

// reset closes a connection by a reset.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}
