package epoll

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// batch is how many datagrams one recvmmsg or sendmmsg carries.
const batch = 32

// maxDatagram is the largest UDP payload, rounded up.
const maxDatagram = 64 << 10

// datagrams is the UDP buffers of one loop: what is being received from clients, and replies that wait for sendmmsg.
// Replies of many sessions of one socket leave in one call.
type datagrams struct {
	in  envelope
	out envelope

	owner *udpSocket // whose replies are in out
	wait  int
}

// envelope is a batch of datagrams with their addresses.
type envelope struct {
	msgs    [batch]mmsghdr
	plain   [batch]mmsghdr // the same buffers without addresses, for connected sockets
	iovs    [batch]unix.Iovec
	plainIO [batch]unix.Iovec
	names   [batch]sockaddr
	control [batch][pktinfo6Space]byte
	bytes   *[batch][maxDatagram]byte
}

func newDatagrams() *datagrams {
	d := &datagrams{}
	d.in.wire()
	d.out.wire()
	return d
}

func (v *envelope) wire() {
	v.bytes = new([batch][maxDatagram]byte)
	for i := range batch {
		v.iovs[i].Base = &v.bytes[i][0]
		v.plainIO[i] = v.iovs[i]
		v.plainIO[i].SetLen(maxDatagram)
		v.plain[i].hdr.Iov = &v.plainIO[i]
		v.plain[i].hdr.SetIovlen(1)
		h := &v.msgs[i].hdr
		h.Iov = &v.iovs[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&v.names[i].raw))
		h.Control = &v.control[i][0]
	}
}

// receive takes a batch from a bound socket.
func (d *datagrams) receive(fd int) (int, syscall.Errno) {
	v := &d.in
	for i := range batch {
		v.iovs[i].SetLen(maxDatagram)
		h := &v.msgs[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(pktinfo6Space)
	}
	return sysRecvmmsg(fd, v.msgs[:])
}

// datagram is one of those received: its payload, who sent it, to which local address and by which interface. It is
// valid until the next receive.
func (d *datagrams) datagram(i int) (data []byte, client *sockaddr, local netip.Addr, iface uint32) {
	v := &d.in
	h := &v.msgs[i].hdr
	v.names[i].size = h.Namelen
	local, iface = pktinfo(v.control[i][:h.Controllen])
	return v.bytes[i][:v.msgs[i].n], &v.names[i], local, iface
}

// repliesAtOnce bounds what one event of a session may put into the batch.
const repliesAtOnce = 8

// reply takes what the endpoint of a session sent, n datagrams of so many bytes together, and queues it for the client.
func (d *datagrams) reply(s *session) (n int, size int64, errno syscall.Errno) {
	if d.owner != s.u || d.wait == batch {
		d.flush()
		d.owner = s.u
	}
	v := &d.out
	first, last := d.wait, min(batch, d.wait+repliesAtOnce)
	n, errno = sysRecvmmsg(s.fd, v.plain[first:last])
	if errno != 0 {
		return 0, 0, errno
	}
	for i := first; i < first+n; i++ {
		bytes := int(v.plain[i].n)
		size += int64(bytes)
		v.iovs[i].SetLen(bytes)
		v.names[i] = s.name
		h := &v.msgs[i].hdr
		h.Namelen = s.name.size
		h.SetControllen(putPktinfo(v.control[i][:], s.local, s.iface))
	}
	d.wait += n
	return n, size, 0
}

// flush sends the queued replies. One that cannot be sent is counted and skipped.
func (d *datagrams) flush() {
	if d.wait == 0 {
		return
	}
	u := d.owner
	for from := 0; from < d.wait; {
		n, e := sysSendmmsg(u.fd, d.out.msgs[from:d.wait])
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			n = 1
			u.l.engine.core.DatagramDropped()
		}
		from += n
	}
	d.wait, d.owner = 0, nil
}

// datagramOptions are those of bound sockets: they report the local address that a datagram was sent to.
func datagramOptions(fd int, family inet.Family) {
	if family == inet.IPv6 {
		sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	} else {
		sysSetInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
}

// receiveBuffer is asked for at each bound UDP socket, in bytes, since many clients share it. The kernel cuts it to
// net.core.rmem_max.
const receiveBuffer = 1 << 20
