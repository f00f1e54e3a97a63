package portaltest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
)

// askMarked is Ask with a socket that bears the mark of the daemon's own packets to endpoints.
func askMarked(from *netnstest.Namespace, network, addr string, wait time.Duration) string {
	d := net.Dialer{Timeout: wait, Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, portal.DefaultDials)
		})
		return errors.Join(failed, err)
	}}
	var conn net.Conn
	err := from.Do(func() (err error) {
		conn, err = d.Dial(network, addr)
		return err
	})
	if err != nil {
		return verdict(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write([]byte(Answered + "\n")); err != nil {
		return verdict(err)
	}
	if _, err := conn.Read(make([]byte, 64)); err != nil {
		return verdict(err)
	}
	return Answered
}

// ownDialsAreNotRedirected: what the daemon sends to an endpoint that is a frontend is not redirected.
func ownDialsAreNotRedirected(s *Site) {
	s.Client.Must(func() error { return errors.Join(Echo(s.TB, ClientV4, 7), Echo(s.TB, ClientV6, 7)) })
	var wg sync.WaitGroup
	for _, network := range []string{"tcp", "udp"} {
		for _, host := range Dials() {
			wg.Go(func() {
				s.Expect(s.Node, "the node", network, host+"80", Answered)
				if got := askMarked(s.Node, network, host+"80", silenceTime); got == Answered {
					s.Errorf("the daemon's own %s to %s80 is redirected", network, host)
				}
			})
		}
		for _, host := range []string{ClientV4, ClientV6} {
			if got := askMarked(s.Node, network, net.JoinHostPort(host, "7"), answerTime); got != Answered {
				s.Errorf("the daemon's own %s to an endpoint: %s", network, got)
			}
		}
	}
	wg.Wait()
}

// dials: nor does the kernel translate it to other endpoints.
func dials(s *spreading) {
	o := s.offer("cart", 80, "ab")
	s.Write(o.portals())
	var wg sync.WaitGroup
	for _, family := range inet.Families() {
		for _, proto := range protocols() {
			network := proto.String()
			for _, kind := range kinds() {
				wg.Go(func() {
					addr := o.dial(kind, family)
					if got := Asks(s.Node, network, addr, netip.Addr{}, 1, answerTime)[0]; got.Came != Answered {
						s.Errorf("the node asks %s, %s %s: %v", kind, network, addr, got)
					}
					if got := askMarked(s.Node, network, addr, silenceTime); got == Answered {
						s.Errorf("the daemon's own to %s, %s %s is translated", kind, network, addr)
					}
				})
			}
			wg.Go(func() {
				if got := askMarked(s.Node, network, s.endpoint(s.a, family).Addr.String(), answerTime); got != Answered {
					s.Errorf("the daemon's own %s to an endpoint: %s", network, got)
				}
			})
		}
	}
	wg.Wait()
}
