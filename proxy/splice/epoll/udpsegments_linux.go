package epoll

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mostSegments      = 64     // UDP_MAX_SEGMENTS of Linux
	mostSegmentsBytes = 65_000 // an IP packet has 65,535 with its headers
	segmentSpace      = unix.SizeofCmsghdr + 8
)

// segments are datagrams that leave in one call: all of one size, the last one may be smaller. The kernel, or a device,
// cuts them apart again (UDP_SEGMENT), which costs a third of a call for each. The zero value has none.
type segments struct {
	iovs    [mostSegments]unix.Iovec
	control [segmentSpace]byte
	n       int
	size    int // of each but the last one
	bytes   int // of all
}

// add adds a datagram, which stays where it is, if it fits. The first one does.
func (g *segments) add(data []byte) bool {
	if g.n == 0 {
		g.size, g.bytes = len(data), 0
	} else if !joins(g.size, g.bytes, len(data)) {
		return false
	}
	g.iovs[g.n].Base = unsafe.SliceData(data)
	g.iovs[g.n].SetLen(len(data))
	g.bytes += len(data)
	g.n++
	return true
}

// joins tells whether a datagram can leave with others, of bytes together, of which each but the last one has a size.
func joins(size, bytes, next int) bool {
	return 0 < next && next <= size && bytes%size == 0 && bytes/size < mostSegments && bytes+next <= mostSegmentsBytes
}

// data is one of the datagrams.
func (g *segments) data(i int) []byte { return unsafe.Slice(g.iovs[i].Base, g.iovs[i].Len) }

// send sends all to the peer of a socket.
func (g *segments) send(fd int) syscall.Errno {
	msg := unix.Msghdr{Iov: &g.iovs[0], Control: &g.control[0]}
	msg.SetIovlen(g.n)
	msg.SetControllen(putSegment(g.control[:], g.size))
	return sysSendmsg(fd, &msg)
}

// putSegment writes the size at which the kernel cuts.
func putSegment(b []byte, size int) int {
	hdr := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	hdr.Level, hdr.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	hdr.SetLen(unix.SizeofCmsghdr + 2)
	binary.NativeEndian.PutUint16(b[unix.SizeofCmsghdr:], uint16(size))
	return segmentSpace
}

// gather has the kernel leave datagrams of one size together that came so, or not (UDP_GRO). See segment.
func gather(fd int, is bool) {
	value := int32(0)
	if is {
		value = 1
	}
	sysSetInt(fd, unix.SOL_UDP, unix.UDP_GRO, value)
}

// segment reads of a control message the size at which what came in one piece is to be cut, 0 if it is another message.
func segment(b []byte) int {
	hdr := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	if hdr.Level != unix.SOL_UDP || hdr.Type != unix.UDP_GRO || len(b) < unix.SizeofCmsghdr+4 {
		return 0
	}
	return int(binary.NativeEndian.Uint32(b[unix.SizeofCmsghdr:]))
}

// cut splits off the first datagram of what came in one piece.
func cut(all []byte, size int) (first, rest []byte, more bool) {
	if size <= 0 || size >= len(all) {
		return all, nil, false
	}
	return all[:size], all[size:], true
}

// cannotCut tells whether the way to a peer carries datagrams, but no segments of them: larger than its MTU, or by a
// device that computes no checksums.
func cannotCut(e syscall.Errno) bool {
	return e == unix.EIO || e == unix.EINVAL || e == unix.EMSGSIZE || e == unix.EOPNOTSUPP
}

// whole is the least size of datagrams that a way does not carry as segments, 0 while none is known.
type whole int

// carries tells whether segments of this size may be tried.
func (w whole) carries(size int) bool { return w == 0 || size < int(w) }
