package portaltest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/netnstest"
)

const (
	answerTime  = 5 * time.Second        // far more than any answer takes, even in an emulated machine that is busy
	silenceTime = 300 * time.Millisecond // without an answer: a wrong one comes within milliseconds
)

// Results of Ask.
const (
	Answered = "hello"
	Refused  = "refused"
	Silence  = "timeout"
)

// Echo answers TCP and UDP at an address of this namespace until the test ends.
func Echo(t testing.TB, host string, port int) error {
	ip := net.ParseIP(host)
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip, Port: port})
	if err != nil {
		return err
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip, Port: port})
	if err != nil {
		tcp.Close()
		return err
	}
	var ended sync.WaitGroup
	ended.Go(func() { echoTCP(tcp) })
	ended.Go(func() { echoUDP(udp) })
	t.Cleanup(func() {
		tcp.Close()
		udp.Close()
		ended.Wait()
	})
	return nil
}

func echoTCP(ln *net.TCPListener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}

func echoUDP(conn *net.UDPConn) {
	buf := make([]byte, 64)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			conn.WriteTo(buf[:n], from)
		}
	}
}

// Ask says "hello" to an address and returns what came of it: Answered, Refused, Silence or another error. A local port
// of 0 is any.
func Ask(from *netnstest.Namespace, network, addr string, localPort int) string {
	return ask(from, network, addr, localPort, answerTime)
}

func ask(from *netnstest.Namespace, network, addr string, localPort int, wait time.Duration) string {
	var conn net.Conn
	err := from.Do(func() error {
		var err error
		if localPort == 0 {
			conn, err = connect(network, addr, netip.Addr{}, wait)
			return err
		}
		dialer := net.Dialer{Timeout: wait, LocalAddr: &net.TCPAddr{Port: localPort}}
		if network == "udp" {
			dialer.LocalAddr = &net.UDPAddr{Port: localPort}
		}
		conn, err = dialer.Dial(network, addr)
		return err
	})
	if err != nil {
		return verdict(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write([]byte(Answered)); err != nil {
		return verdict(err)
	}
	buf := make([]byte, len(Answered))
	if _, err := io.ReadFull(conn, buf); err != nil {
		return verdict(err)
	}
	return string(buf)
}

func verdict(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EPERM): // a host's own datagrams get EPERM
		return Refused
	case errors.As(err, &timeout) && timeout.Timeout():
		return Silence
	}
	return err.Error()
}

// Expect fails the test unless a request has the wanted result.
func (s *Site) Expect(from *netnstest.Namespace, who, network, addr, want string) {
	s.Helper()
	wait := answerTime
	if want == Silence {
		wait = silenceTime
	}
	if got := ask(from, network, addr, 0, wait); got != want {
		s.Errorf("%s asks %s %s: %s, want %s", who, network, addr, got, want)
	}
}

// expectAll expects the wanted result at port of each of Dials, all at once, since silence takes time to tell.
func (s *Site) expectAll(from *netnstest.Namespace, who, port, want string, networks ...string) {
	s.Helper()
	var wg sync.WaitGroup
	for _, host := range Dials() {
		for _, network := range networks {
			wg.Go(func() { s.Expect(from, who, network, host+port, want) })
		}
	}
	wg.Wait()
}
