package epoll

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// batch is how many datagrams one recvmmsg or sendmmsg carries.
const batch = 32

// maxDatagram is the largest UDP payload, rounded up.
const maxDatagram = 64 << 10

// datagrams has the UDP buffers of one loop: for datagrams received from clients, and for replies that wait for
// sendmmsg. Replies of many sessions of one socket leave in one call.
type datagrams struct {
	core *splice.Core // counts those that are dropped
	in   envelope
	out  envelope

	from int // the bound socket that the replies in out leave from
	wait int
}

// udpClient is the source of a client's datagrams, and the destination of the replies to them.
type udpClient struct {
	name  sockaddr
	local netip.Addr // that it sends to
	iface uint32     // index of the interface that it came in by
}

// envelope is a batch of datagrams with their addresses.
type envelope struct {
	msgs    [batch]mmsghdr
	plain   [batch]mmsghdr // the same buffers without addresses, for connected sockets
	iovs    [batch]unix.Iovec
	plainIO [batch]unix.Iovec
	clients [batch]udpClient
	control [batch][pktinfo6Space]byte
	bytes   *[batch][maxDatagram]byte
}

func newDatagrams(core *splice.Core) *datagrams {
	d := &datagrams{core: core, from: -1}
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
		h.Name = (*byte)(unsafe.Pointer(&v.clients[i].name.raw))
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

// datagram returns one of those received, which is valid until the next receive, and its client.
func (d *datagrams) datagram(i int) (data []byte, from *udpClient) {
	v := &d.in
	h := &v.msgs[i].hdr
	from = &v.clients[i]
	from.name.size = h.Namelen
	from.local, from.iface = pktinfo(v.control[i][:h.Controllen])
	return v.bytes[i][:v.msgs[i].n], from
}

// repliesAtOnce bounds what one event of a session may put into the batch.
const repliesAtOnce = 8

// reply takes what an endpoint sent to a session's socket, n datagrams of so many bytes together, and queues it to
// leave the bound socket for the client.
func (d *datagrams) reply(bound, socket int, to *udpClient) (n int, size int64, errno syscall.Errno) {
	if d.from != bound || d.wait == batch {
		d.flush()
		d.from = bound
	}
	v := &d.out
	first, last := d.wait, min(batch, d.wait+repliesAtOnce)
	n, errno = sysRecvmmsg(socket, v.plain[first:last])
	if errno != 0 {
		return 0, 0, errno
	}
	for i := first; i < first+n; i++ {
		bytes := int(v.plain[i].n)
		size += int64(bytes)
		v.iovs[i].SetLen(bytes)
		v.clients[i].name = to.name
		h := &v.msgs[i].hdr
		h.Namelen = to.name.size
		h.SetControllen(putPktinfo(v.control[i][:], to.local, to.iface))
	}
	d.wait += n
	return n, size, 0
}

// flush sends the queued replies. One that cannot be sent is counted and skipped.
func (d *datagrams) flush() {
	if d.wait == 0 {
		return
	}
	for from := 0; from < d.wait; {
		n, e := sysSendmmsg(d.from, d.out.msgs[from:d.wait])
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			n = 1
			d.core.Shortages().DatagramDropped()
		}
		from += n
	}
	d.wait, d.from = 0, -1
}

// datagramOptions are the options of bound sockets: they report the local address that a datagram was sent to.
func datagramOptions(fd int, family inet.Family) {
	if family == inet.IPv6 {
		sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	} else {
		sysSetInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
}

// receiveBuffer is set on each bound UDP socket, in bytes, since many clients share it. The kernel cuts it to
// net.core.rmem_max.
const receiveBuffer = 1 << 20
