package epoll

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// Listen implements splice.Engine.
func (e *engine) Listen(f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	fd, paused, err := e.listen(f.Name(), at)
	if err != nil {
		return nil, err
	}
	if f.Name().Protocol == inet.UDP {
		return openUDP(e, f, fd, at.Port(), paused), nil
	}
	return openTCP(e, f, fd), nil
}

// listen takes over the socket of a predecessor, or makes one.
func (e *engine) listen(name service.PortName, at netip.AddrPort) (fd int, paused bool, err error) {
	inherited, err := e.core.Options().Listen(name, at)
	if err != nil {
		return 0, false, err
	}
	if inherited.File == nil {
		fd, err = bind(name.Protocol, at)
		return fd, false, err
	}
	defer inherited.File.Close()
	if fd, err = takeOver(inherited.File); err == nil {
		listenOptions(fd, name.Protocol, at)
	}
	return fd, inherited.Paused, err
}

func takeOver(file *os.File) (int, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("duplicate the descriptor: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		sysClose(fd)
		return 0, err
	}
	return fd, nil
}

// bind makes a listening or bound socket.
func bind(p inet.Protocol, at netip.AddrPort) (int, error) {
	kind := unix.SOCK_STREAM
	if p == inet.UDP {
		kind = unix.SOCK_DGRAM
	}
	fd, e := sysSocket(family(at.Addr()), kind)
	if e != 0 {
		return 0, e
	}
	if at.Addr().Is6() {
		sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	listenOptions(fd, p, at)
	if p == inet.TCP {
		guardAccepted(fd)
	}
	if err := bindTo(fd, p, at); err != nil {
		sysClose(fd)
		return 0, err
	}
	return fd, nil
}

func bindTo(fd int, p inet.Protocol, at netip.AddrPort) error {
	var sa sockaddr
	sa.set(at)
	if e := sysBind(fd, &sa); e != 0 {
		return e
	}
	if p == inet.UDP {
		return nil
	}
	return unix.Listen(fd, backlog)
}

// guardAccepted has the death of this process reset those that a listener accepts from their first moment on: see
// socket.guard. It is not for a listener that another daemon has too, which may not know.
func guardAccepted(listener int) { sysCloseByReset(listener, 1) }

// listenOptions are set before a socket listens: those that it accepts inherit them.
func listenOptions(fd int, p inet.Protocol, at netip.AddrPort) {
	if p == inet.UDP {
		datagramOptions(fd, inet.FamilyOf(at.Addr()))
		return
	}
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	streamOptions(fd)
	setKeepalive(fd, splice.DefaultKeepalive())
}

// backlog is set for each listener; the kernel cuts it to net.core.somaxconn (4096 by default).
const backlog = 4096
