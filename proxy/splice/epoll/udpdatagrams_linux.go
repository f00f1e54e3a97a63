package epoll

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// batch is how many datagrams one recvmmsg or sendmmsg carries.
const batch = 32

// segmentedBatch is the same while what comes is buffers of segments: 256 datagrams, or a millisecond of one client.
const segmentedBatch = 4

// maxDatagram is the largest UDP payload, rounded up.
const maxDatagram = 64 << 10

// datagrams has the UDP buffers of one loop: for datagrams received from clients, and for replies that wait for
// sendmmsg. Replies of many sessions of one socket leave in one call.
type datagrams struct {
	core *splice.Core // counts those that are dropped
	in   envelope
	out  envelope

	tags     [batch]uint32 // of the clients of those in in: of one client they are equal
	groSizes [batch]int    // of the segments of these, 0: they are one datagram each
	taken    [batch]bool   // of these, have been handed to a session
	together segments      // of one session, on their way to its endpoint

	from      int // the bound socket that the replies in out leave from
	wait      int
	to        [batch]*udpClient // whose these are
	coalesced [batch]mmsghdr    // these, several of a client in one
}

// udpClient is the source of a client's datagrams, and the destination of the replies to them.
type udpClient struct {
	name  sockaddr
	local netip.Addr   // that it sends to
	iface uint32       // index of the interface that it came in by
	limit segmentLimit // of the path to it
}

func (c *udpClient) key() splice.SessionKey {
	return splice.SessionKey{Client: c.name.addr(), Local: c.local}
}

// tag tells most clients apart: by the port and by a part of the address.
func (c *udpClient) tag() uint32 {
	part := c.name.raw.Flowinfo // of IPv4, in its place the address
	if c.name.raw.Family == unix.AF_INET6 {
		part = binary.NativeEndian.Uint32(c.name.raw.Addr[12:])
	}
	return part ^ uint32(c.name.raw.Port)
}

// envelope is a batch of datagrams with their addresses.
type envelope struct {
	msgs    [batch]mmsghdr
	plain   [batch]mmsghdr // the same buffers without addresses, for connected sockets
	iovs    [batch]unix.Iovec
	plainIO [batch]unix.Iovec
	clients [batch]udpClient
	control [batch][pktinfo6Space + segmentSpace]byte
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

// receive takes at most so many from a bound socket.
func (d *datagrams) receive(fd, most int) (int, syscall.Errno) {
	v := &d.in
	for i := range most {
		v.iovs[i].SetLen(maxDatagram)
		h := &v.msgs[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(len(v.control[i]))
	}
	return sysRecvmmsg(fd, v.msgs[:most])
}

// parse reads of one of those received whose it is.
func (d *datagrams) parse(i int) {
	v := &d.in
	h := &v.msgs[i].hdr
	from := &v.clients[i]
	from.name.size = h.Namelen
	d.groSizes[i] = 0
	for control, rest := nextControl(v.control[i][:h.Controllen]); control != nil; control, rest = nextControl(rest) {
		if size := groSize(control); size > 0 {
			d.groSizes[i] = size
		} else {
			from.local, from.iface = pktinfo(control)
		}
	}
	d.tags[i], d.taken[i] = from.tag(), false
}

// buffer is a datagram that was received, or segments, valid until the next receive.
func (d *datagrams) buffer(i int) []byte { return d.in.bytes[i][:d.in.msgs[i].n] }

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
		d.to[i] = to
		h := &v.msgs[i].hdr
		h.Namelen = to.name.size
		h.SetControllen(putPktinfo(v.control[i][:], to.local, to.iface))
	}
	d.wait += n
	return n, size, 0
}

// flush sends the queued replies, those of one client and size in one message. One that cannot be sent is counted and
// skipped.
func (d *datagrams) flush() {
	if d.wait == 0 {
		return
	}
	n := d.coalesce()
	for from, first := 0, 0; from < n; {
		sent, e := sysSendmmsg(d.from, d.coalesced[from:n])
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			sent = 1
			d.sendSingly(first, int(d.coalesced[from].hdr.Iovlen), e)
		}
		for range sent {
			first += int(d.coalesced[from].hdr.Iovlen)
			from++
		}
	}
	clear(d.to[:d.wait])
	d.wait, d.from = 0, -1
}

// coalesce puts queued replies together, as many as leave in one message.
func (d *datagrams) coalesce() (n int) {
	v := &d.out
	for i := 0; i < d.wait; n++ {
		size := int(v.iovs[i].Len)
		bytes, next := size, i+1
		for ; next < d.wait && d.to[next] == d.to[i] && d.to[i].limit.allows(size); next++ {
			more := int(v.iovs[next].Len)
			if !fits(size, bytes, more) {
				break
			}
			bytes += more
		}
		m := &d.coalesced[n]
		*m = v.msgs[i]
		if next-i > 1 {
			m.hdr.SetIovlen(next - i)
			at := int(m.hdr.Controllen)
			m.hdr.SetControllen(at + putSegmentSize(v.control[i][at:], size))
		}
		i = next
	}
	return n
}

// sendSingly sends replies that could not leave together, and drops one that could not leave by itself.
func (d *datagrams) sendSingly(first, n int, e syscall.Errno) {
	if n > 1 && cannotSegment(e) {
		d.to[first].limit = segmentLimit(d.out.iovs[first].Len)
	}
	for i := first; i < first+n; i++ {
		if n > 1 && cannotSegment(e) && sysSendmsg(d.from, &d.out.msgs[i].hdr) == 0 {
			continue
		}
		d.core.Shortages().DatagramDropped()
	}
}

// datagramOptions are the options of bound sockets: they report the local address that a datagram was sent to.
func datagramOptions(fd int, family inet.Family) {
	if family == inet.IPv6 {
		sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	} else {
		sysSetInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	setReceiveBuffer(fd)
}
