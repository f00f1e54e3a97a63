package reach

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
)

// echo has the numbers of a family's ICMP echo.
type echo struct {
	family, protocol int
	request, reply   byte
}

var (
	echo4 = echo{unix.AF_INET, unix.IPPROTO_ICMP, 8, 0}
	echo6 = echo{unix.AF_INET6, unix.IPPROTO_ICMPV6, 128, 129}
)

// nonceSize is the payload of an echo, by which its reply is known.
const nonceSize = 8

// ping sends one ICMP echo with a mark (0: none), and waits so long for the reply. It needs a ping socket
// (net.ipv4.ping_group_range), or CAP_NET_RAW.
func ping(to netip.Addr, mark uint32, wait time.Duration) Answer {
	e, address := echo4, unix.Sockaddr(nil)
	if to.Is4() {
		address = &unix.SockaddrInet4{Addr: to.As4()}
	} else {
		e, address = echo6, &unix.SockaddrInet6{Addr: to.As16()}
	}
	fd, raw, err := e.socket()
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	if mark != 0 {
		if platform.Mark(uintptr(fd), mark) != nil {
			return ""
		}
	}
	deadline := time.Now().Add(wait)
	packet := e.packet()
	if err = unix.Connect(fd, address); err == nil {
		_, err = unix.Write(fd, packet)
	}
	buf := make([]byte, 1500)
	for err == nil {
		left := time.Until(deadline)
		if left <= 0 {
			return Nothing
		}
		timeout := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
		if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			break
		}
		var n int
		n, err = unix.Read(fd, buf)
		switch {
		case err == unix.EAGAIN:
			return Nothing
		case err == unix.EINTR:
			err = nil
		case err == nil && e.answers(buf[:n], raw, packet[len(packet)-nonceSize:]):
			return Answered
		}
	}
	return answerOf(err)
}

// socket opens a socket for echoes. Raw: what it receives begins with the IP header, if the family is IPv4.
func (e echo) socket() (fd int, raw bool, err error) {
	if fd, err = unix.Socket(e.family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, e.protocol); err == nil {
		return fd, false, nil
	}
	fd, err = unix.Socket(e.family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, e.protocol)
	return fd, true, err
}

// packet is an echo request with a nonce. The kernel sets the checksum, except of raw sockets of IPv4.
func (e echo) packet() []byte {
	b := make([]byte, 8+nonceSize)
	b[0] = e.request
	_, _ = rand.Read(b[4:]) // id, sequence and nonce; it never fails
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum>>16+sum))
	return b
}

// answers tells whether a packet is the reply to an echo.
func (e echo) answers(b []byte, raw bool, nonce []byte) bool {
	if raw && e.family == unix.AF_INET && len(b) > 0 {
		b = b[min(len(b), int(b[0]&15)*4):]
	}
	return len(b) >= 8 && b[0] == e.reply && bytes.HasSuffix(b, nonce)
}
