package bed

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/platform/netnstest"
)

// The net package of Go has no SCTP, so these are the system's own sockets, one-to-one as those of TCP, each with one
// address: associations with several are no matter of a service proxy.

// NeedsSCTP is for a test of a kernel with SCTP: that of the virtual machine, if not this one's. Elsewhere
// they are left to make test-ipvs.
func (b *Bed) NeedsSCTP() {
	b.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	switch {
	case err == nil:
		unix.Close(fd)
	case InVM:
		b.Fatalf("open a socket of SCTP: %v", err)
	case netnstest.Elsewhere("ipvs"):
		b.Skipf("runs in a virtual machine, by make test-ipvs; here: open a socket of SCTP: %v", err)
	default:
		topology.Lack(b, "needs a kernel with SCTP (modprobe sctp) or a virtual machine (make test-ipvs): %v", err)
	}
}

// SCTP is an association, or a socket that listens.
type SCTP struct{ fd int }

// Close ends an association as it should end.
func (s SCTP) Close() { unix.Close(s.fd) }

// sctpSocket opens a socket at an address of a host, port 0: any; its calls take no longer than limit.
func sctpSocket(h *topology.Host, at netip.AddrPort, limit time.Duration) (s SCTP, err error) {
	family := unix.AF_INET
	if at.Addr().Is6() {
		family = unix.AF_INET6
	}
	err = h.Do(func() error {
		s.fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
		return err
	})
	if err != nil {
		return s, err
	}
	timeout := unix.NsecToTimeval(limit.Nanoseconds())
	return s, errors.Join(
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout),
		unix.Bind(s.fd, sockaddr(at)),
	)
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// ServeSCTP accepts associations at a port of both addresses of a host until the test ends. It sends each a name and
// the client's address, and echoes what it gets.
func (b *Bed) ServeSCTP(h *topology.Host, port int, name string) (stop func()) {
	b.Helper()
	var ended atomic.Bool
	var all sync.WaitGroup
	for _, addr := range []netip.Addr{h.IPv4, h.IPv6} {
		l, err := sctpSocket(h, netip.AddrPortFrom(addr, uint16(port)), 200*time.Millisecond)
		b.Must(errors.Join(err, unix.Listen(l.fd, 128)))
		all.Go(func() {
			defer l.Close()
			for !ended.Load() {
				fd, peer, err := unix.Accept(l.fd)
				if err != nil {
					continue // the time limit, or a client that has gone
				}
				all.Go(func() { SCTP{fd}.serve(name, peer, &ended) })
			}
		})
	}
	stop = sync.OnceFunc(func() {
		ended.Store(true)
		all.Wait()
	})
	b.Cleanup(stop)
	return stop
}

// read is one that signals to this process do not end: the kernel does not go on by itself where there is a time limit.
func (s SCTP) read(buf []byte) (n int, err error) {
	for {
		if n, err = unix.Read(s.fd, buf); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// write is the same for outgoing bytes.
func (s SCTP) write(text []byte) (err error) {
	for {
		if err = unix.Sendto(s.fd, text, 0, nil); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (s SCTP) serve(name string, peer unix.Sockaddr, ended *atomic.Bool) {
	defer s.Close()
	said := fmt.Appendf(nil, "%s %s", name, addrPort(peer))
	buf := make([]byte, 1<<10)
	for !ended.Load() {
		if len(said) > 0 && s.write(said) != nil {
			return
		}
		n, err := s.read(buf) // with the time limit of the listening socket, which it has inherited
		if n == 0 || err != nil && !errors.Is(err, unix.EAGAIN) {
			return
		}
		said = buf[:max(n, 0)]
	}
}

// DialSCTP opens an association from the address that a host has of the family. An ICMP error that says that the port
// is unreachable is ECONNREFUSED.
func DialSCTP(limit time.Duration, from *topology.Host, to netip.AddrPort) (s SCTP, a Answer, err error) {
	source, level, option := from.IPv4, unix.SOL_IP, unix.IP_RECVERR
	if to.Addr().Is6() {
		source, level, option = from.IPv6, unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	s, err = sctpSocket(from, netip.AddrPortFrom(source, 0), limit)
	if err == nil {
		err = unix.SetsockoptInt(s.fd, level, option, 1)
	}
	if err == nil {
		err = s.connect(to, limit)
	}
	if err != nil {
		s.Close()
		return s, a, fmt.Errorf("connect: %w", err)
	}
	buf := make([]byte, 1<<10)
	n, err := s.read(buf)
	if err != nil {
		s.Close()
		return s, a, fmt.Errorf("read the pod's name: %w", err)
	}
	var client string
	if _, err = fmt.Sscan(string(buf[:n]), &a.Pod, &client); err == nil {
		a.Client, err = netip.ParseAddrPort(client)
	}
	return s, a, err
}

// connect waits where errors are told: a call of connect that blocks is not woken by one.
func (s SCTP) connect(to netip.AddrPort, limit time.Duration) error {
	if err := unix.SetNonblock(s.fd, true); err != nil {
		return err
	}
	if err := unix.Connect(s.fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	until := time.Now().Add(limit)
	for {
		ready := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(ready, int(max(0, time.Until(until).Milliseconds())))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n == 0 && err == nil {
			err = unix.ETIMEDOUT
		}
		failed, unknown := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if failed != 0 {
			err = unix.Errno(failed)
		}
		return errors.Join(err, unknown, unix.SetNonblock(s.fd, false))
	}
}

// Echoes sends something by an association and wants it back.
func (s SCTP) Echoes() error {
	const text = "hello"
	buf := make([]byte, 1<<10)
	if err := s.write([]byte(text)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	n, err := s.read(buf)
	if err != nil || string(buf[:n]) != text {
		return fmt.Errorf("echoed %q: %w", buf[:max(n, 0)], err)
	}
	return nil
}

// AskSCTP opens an association, and ends it once the pod has said its name, how it sees the client, and an echo.
func AskSCTP(from *topology.Host, to string) (Answer, error) {
	s, a, err := DialSCTP(AnswerTimeout, from, netip.MustParseAddrPort(to))
	if err != nil {
		return a, err
	}
	defer s.Close()
	return a, s.Echoes()
}

// RefusedSCTP tells whether a client is refused at once.
func RefusedSCTP(from *topology.Host, to string) bool {
	s, _, err := DialSCTP(AnswerTimeout, from, netip.MustParseAddrPort(to))
	if err == nil {
		s.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}
