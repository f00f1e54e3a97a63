package epoll

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mostSegments      = 64                     // UDP_MAX_SEGMENTS of Linux
	mostSegmentsBytes = 65_000                 // an IP packet has 65,535 with its headers
	segmentSpace      = unix.SizeofCmsghdr + 8 // of a control message of UDP_SEGMENT or UDP_GRO
)

// segments are datagrams that leave in one call: all of one size, the last one may be smaller. The kernel, or a device,
// segments them again (UDP_SEGMENT), which costs a third of a call for each. The zero value has none.
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
	} else if !fits(g.size, g.bytes, len(data)) {
		return false
	}
	g.iovs[g.n].Base = unsafe.SliceData(data)
	g.iovs[g.n].SetLen(len(data))
	g.bytes += len(data)
	g.n++
	return true
}

// fits tells whether a datagram can leave with others, of bytes together, of which each but the last one has a size.
func fits(size, bytes, next int) bool {
	return 0 < next && next <= size && bytes%size == 0 && bytes/size < mostSegments && bytes+next <= mostSegmentsBytes
}

// data is one of the datagrams.
func (g *segments) data(i int) []byte { return unsafe.Slice(g.iovs[i].Base, g.iovs[i].Len) }

// send sends all to the peer of a socket.
func (g *segments) send(fd int) syscall.Errno {
	msg := unix.Msghdr{Iov: &g.iovs[0], Control: &g.control[0]}
	msg.SetIovlen(g.n)
	msg.SetControllen(putSegmentSize(g.control[:], g.size))
	return sysSendmsg(fd, &msg)
}

// putSegmentSize writes the control message that says the size of segments.
func putSegmentSize(b []byte, size int) int {
	hdr := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	hdr.Level, hdr.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	hdr.SetLen(unix.SizeofCmsghdr + 2)
	binary.NativeEndian.PutUint16(b[unix.SizeofCmsghdr:], uint16(size))
	return segmentSpace
}

// setGRO says whether the kernel may hand over datagrams that came together as one buffer (UDP_GRO). See groSize.
func setGRO(fd int, on bool) {
	value := int32(0)
	if on {
		value = 1
	}
	sysSetInt(fd, unix.SOL_UDP, unix.UDP_GRO, value)
}

// groSize reads of a control message the size of the segments of a buffer, 0 if it is another message.
func groSize(b []byte) int {
	hdr := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	if hdr.Level != unix.SOL_UDP || hdr.Type != unix.UDP_GRO || len(b) < unix.SizeofCmsghdr+4 {
		return 0
	}
	return int(binary.NativeEndian.Uint32(b[unix.SizeofCmsghdr:]))
}

// splitSegment splits off the first datagram of a buffer of segments; size 0: the buffer is one datagram.
func splitSegment(all []byte, size int) (first, rest []byte, more bool) {
	if size <= 0 || size >= len(all) {
		return all, nil, false
	}
	return all[:size], all[size:], true
}

// cannotSegment tells whether the path to a peer carries datagrams, but no segments of this size: they are larger than
// its MTU, or leave by a device that computes no checksums.
func cannotSegment(e syscall.Errno) bool {
	return e == unix.EIO || e == unix.EINVAL || e == unix.EMSGSIZE || e == unix.EOPNOTSUPP
}

// segmentLimit is the least size of segments that the path to a peer does not carry, 0 while none is known.
type segmentLimit int

// allows tells whether segments of this size may be tried.
func (l segmentLimit) allows(size int) bool { return l == 0 || size < int(l) }
