package splice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// ErrTransparent is what Options.Trouble is told, once in a while, when endpoints see this node's address although the
// policy says that they are to see the client's.
var ErrTransparent = errors.New("the kernel grants no transparent socket, so endpoints see this node's address")

// showClient gives a socket that is to be connected to an endpoint the client's address.
func (e *epollEngine) showClient(fd int, client netip.Addr) {
	if errno := bindAs(fd, client); errno != 0 {
		e.core.opaque(errno)
	}
}

// bindAs binds a socket to an address that is not this host's, at a port that the kernel chooses when it connects: one
// that is free towards that endpoint.
func bindAs(fd int, client netip.Addr) syscall.Errno {
	if e := setTransparent(fd, service.FamilyOf(client)); e != 0 {
		return e
	}
	if e := sysSetInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); e != 0 {
		return e
	}
	var sa sockaddr
	sa.set(netip.AddrPortFrom(client, 0))
	return sysBind(fd, &sa)
}

// setTransparent lets a socket be bound to an address that is not this host's.
func setTransparent(fd int, family service.IPFamily) syscall.Errno {
	if family == service.IPv6 {
		return sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT, 1)
	}
	return sysSetInt(fd, unix.IPPROTO_IP, unix.IP_TRANSPARENT, 1)
}

func (c *Core) opaque(errno error) {
	if c.opaqueTold.now(time.Since(c.start)) {
		c.opts.Trouble(fmt.Errorf("%w: %w", ErrTransparent, errno))
	}
}

// The binary header of the PROXY protocol (proxy-protocol.txt of HAProxy, 2.2): a signature, version 2 and the command
// PROXY, the family with the transport STREAM, and the length of what follows: source, destination and their ports.
const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyCommand   = 0x21
	proxyTCP4      = 0x11
	proxyTCP6      = 0x21
	proxyMost      = 52
)

// proxyHeader tells an endpoint who the client is and what it dialled, both of one family.
func proxyHeader(client, dst netip.AddrPort) []byte {
	family, size := byte(proxyTCP4), byte(2*4+2*2)
	if client.Addr().Is6() {
		family, size = proxyTCP6, 2*16+2*2
	}
	h := append(make([]byte, 0, proxyMost), proxySignature...)
	h = append(h, proxyCommand, family, 0, size)
	h = append(h, client.Addr().AsSlice()...)
	h = append(h, dst.Addr().AsSlice()...)
	h = binary.BigEndian.AppendUint16(h, client.Port())
	return binary.BigEndian.AppendUint16(h, dst.Port())
}
