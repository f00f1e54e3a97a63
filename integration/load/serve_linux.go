package load

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// server echoes what comes by TCP and by UDP at one address, in one event loop.
type server struct {
	poll     *poll
	tcp, udp int
	buf      [64 << 10]byte
	open     map[int]struct{}
}

// Serve answers each read and each datagram with the same bytes until ctx ends, by TCP and UDP.
func Serve(ctx context.Context, at netip.AddrPort) error {
	s := &server{tcp: -1, udp: -1, open: map[int]struct{}{}}
	defer s.close()
	var err error
	if s.poll, err = newPoll(); err != nil {
		return err
	}
	if s.tcp, err = listen(unix.SOCK_STREAM, at); err != nil {
		return fmt.Errorf("listen at tcp %s: %w", at, err)
	}
	if s.udp, err = listen(unix.SOCK_DGRAM, at); err != nil {
		return fmt.Errorf("listen at udp %s: %w", at, err)
	}
	for _, fd := range []int{s.tcp, s.udp} {
		if err := s.poll.add(fd, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		events, err := s.poll.wait(200)
		if err != nil {
			return err
		}
		for i := range events {
			s.on(int(events[i].Fd))
		}
	}
	return nil
}

func (s *server) on(fd int) {
	switch fd {
	case s.tcp:
		s.accept()
	case s.udp:
		echoAll(s.udp, s.buf[:])
	default:
		s.echo(fd)
	}
}

func (s *server) accept() {
	for fd := range accepted(s.tcp) {
		if s.poll.add(fd, fd, unix.EPOLLIN) != nil {
			closeFD(fd)
			continue
		}
		s.open[fd] = struct{}{}
	}
}

func (s *server) echo(fd int) {
	n, err := read(fd, s.buf[:])
	if err == unix.EAGAIN {
		return
	}
	if n > 0 && err == nil {
		if m, err := send(fd, s.buf[:n]); err == nil && m == n {
			return
		}
	}
	delete(s.open, fd)
	closeFD(fd)
}

// echoAll answers all datagrams that wait with the same bytes.
func echoAll(udp int, buf []byte) {
	var from unix.RawSockaddrAny
	for {
		size := uint32(unsafe.Sizeof(from))
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(udp), uintptr(unsafe.Pointer(&buf[0])),
			uintptr(len(buf)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)))
		if e != 0 {
			return
		}
		_, _, _ = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(udp), uintptr(unsafe.Pointer(&buf[0])), n,
			unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&from)), uintptr(size))
	}
}

func (s *server) close() {
	for fd := range s.open {
		closeFD(fd)
	}
	for _, fd := range []int{s.tcp, s.udp} {
		if fd >= 0 {
			closeFD(fd)
		}
	}
	if s.poll != nil {
		closeFD(s.poll.fd)
	}
}
