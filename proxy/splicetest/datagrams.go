package splicetest

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// mostDatagram is the room for the largest datagram.
const mostDatagram = 1 << 16

// serveUDP runs a UDP server until the scenario ends. handle has the server's socket, a datagram and its sender.
func serveUDP(t testing.TB, host string, handle func(net.PacketConn, string, net.Addr)) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, mostDatagram)
		for {
			n, from, err := pc.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				handle(pc, string(buf[:n]), from)
			}
		}
	}()
	return addrOf(pc.LocalAddr())
}

// echoDatagrams sends each datagram back.
func echoDatagrams(t testing.TB, host string) netip.AddrPort {
	t.Helper()
	return serveUDP(t, host, func(pc net.PacketConn, d string, from net.Addr) { pc.WriteTo([]byte(d), from) })
}

// named answers each datagram with its name before it.
func named(t testing.TB, name string) netip.AddrPort {
	t.Helper()
	return serveUDP(t, loopback, func(pc net.PacketConn, d string, from net.Addr) {
		pc.WriteTo([]byte(name+" "+d), from)
	})
}

// slowNamed answers as named does, but questions that begin with "slow" only once answer is called.
func slowNamed(t testing.TB, name string) (at netip.AddrPort, answer func()) {
	t.Helper()
	due := make(chan struct{})
	return serveUDP(t, loopback, func(pc net.PacketConn, d string, from net.Addr) {
		say := []byte(name + " " + d)
		if !strings.HasPrefix(d, "slow") {
			pc.WriteTo(say, from)
			return
		}
		go func() {
			<-due
			pc.WriteTo(say, from)
		}()
	}), func() { close(due) }
}

// tardy sends each datagram back after a moment.
func tardy(t testing.TB) netip.AddrPort {
	t.Helper()
	return serveUDP(t, loopback, func(pc net.PacketConn, d string, from net.Addr) {
		time.AfterFunc(5*time.Millisecond, func() { pc.WriteTo([]byte(d), from) })
	})
}

func dialUDP(t testing.TB, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	return dialUDPFrom(t, "", to)
}

func dialUDPFrom(t testing.TB, host string, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	var from *net.UDPAddr
	if host != "" {
		from = &net.UDPAddr{IP: net.ParseIP(host)}
	}
	c, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// needSource skips the scenario where a socket that is bound to an address sends from another one, as under Wine.
func needSource(t *trial, host string) {
	t.Helper()
	seen := make(chan netip.AddrPort, 1)
	at := serveUDP(t, loopback, func(_ net.PacketConn, _ string, from net.Addr) { seen <- addrOf(from) })
	dialUDPFrom(t, host, at).Write(nil)
	if from := <-seen; from.Addr().String() != host {
		t.Skipf("a UDP socket that is bound to %s sends from %s here", host, from.Addr())
	}
}

// ask sends one datagram and returns the answer.
func ask(t testing.TB, c *net.UDPConn, question string) string {
	t.Helper()
	if _, err := c.Write([]byte(question)); err != nil {
		t.Fatal(err)
	}
	return answerTo(t, c)
}

// askAgain sends the same datagram again and again, as a client does, and returns the first answer. Any may be lost: a
// socket that was closed is open a moment longer in a process that is just being started.
func askAgain(t testing.TB, c *net.UDPConn, question string) string {
	t.Helper()
	buf := make([]byte, mostDatagram)
	for until := time.Now().Add(longest); time.Now().Before(until); {
		c.Write([]byte(question))
		c.SetReadDeadline(time.Now().Add(silence))
		if n, err := c.Read(buf); err == nil {
			return string(buf[:n])
		}
	}
	t.Fatal("no answer came")
	return ""
}

// answerTo waits for an answer to what was asked before.
func answerTo(t testing.TB, c *net.UDPConn) string {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(longest))
	buf := make([]byte, mostDatagram)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("no answer came: %v", err)
	}
	return string(buf[:n])
}

// wantAnswer sends one datagram and expects an answer.
func wantAnswer(t testing.TB, c *net.UDPConn, question, want string) {
	t.Helper()
	if got := ask(t, c, question); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// noAnswer sends one datagram and expects that it is dropped.
func noAnswer(t testing.TB, c *net.UDPConn) {
	t.Helper()
	if answeredSoon(c) {
		t.Error("an answer came")
	}
}

// answeredSoon sends one datagram, and tells whether an answer comes soon.
func answeredSoon(c *net.UDPConn) bool {
	c.Write([]byte("x"))
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, err := c.Read(make([]byte, 10))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
