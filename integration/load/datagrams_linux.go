package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	datagramSize   = 1200 // bytes of one, as of QUIC
	datagramsACall = 44   // that the kernel cuts: what QUIC's libraries send at a time
	question       = "how many?"
)

// Datagrams sends datagrams to a Sink, from one port.
type Datagrams struct {
	To   netip.AddrPort
	Cut  bool // by the kernel, of what one call sends (UDP_SEGMENT); else each has a call
	Rate int  // a second; 0: as many as will go
	For  time.Duration
}

// DatagramsResult is what was sent, and the Sink's count of what arrived.
type DatagramsResult struct {
	Sent    int64         `json:"sent"`
	Arrived int64         `json:"arrived"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// Run sends for the time given, and asks the Sink for its count.
func (c Datagrams) Run(ctx context.Context) (r DatagramsResult, err error) {
	fd, err := unix.Socket(family(c.To.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return r, err
	}
	defer closeFD(fd)
	if err := unix.Connect(fd, sockaddr(c.To)); err != nil {
		return r, fmt.Errorf("connect to %s: %w", c.To, err)
	}
	size, each := datagramSize, int64(1)
	if c.Cut {
		size, each = datagramsACall*datagramSize, datagramsACall
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, datagramSize); err != nil {
			return r, fmt.Errorf("have the kernel cut: %w", err)
		}
	}
	if _, err := count(ctx, fd); err != nil { // the flow is known to all
		return r, err
	}
	data, start := make([]byte, size), time.Now()
	for now := start; now.Sub(start) < c.For; now = time.Now() {
		if c.Rate > 0 && float64(r.Sent) >= now.Sub(start).Seconds()*float64(c.Rate) {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		switch _, err := unix.SendmsgN(fd, data, nil, nil, 0); {
		case err == nil:
			r.Sent += each
		case !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.ECONNREFUSED):
			return r, fmt.Errorf("send to %s: %w", c.To, err)
		}
	}
	r.Elapsed = time.Since(start)
	r.Arrived, err = count(ctx, fd)
	return r, err
}

// count asks until the Sink answers, and what is on its way has arrived.
func count(ctx context.Context, fd int) (n int64, err error) {
	last := int64(-1)
	timeout := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return 0, err
	}
	for end := time.Now().Add(deadAfter); time.Now().Before(end) && ctx.Err() == nil; {
		if err := unix.Send(fd, []byte(question), 0); err != nil {
			return 0, err
		}
		var said [8]byte
		if got, err := unix.Read(fd, said[:]); err != nil || got != len(said) {
			continue
		}
		n = int64(binary.BigEndian.Uint64(said[:]))
		if n == last {
			return n, nil
		}
		last = n
		time.Sleep(5 * time.Millisecond)
	}
	return 0, errors.Join(errors.New("the sink does not answer"), ctx.Err())
}

// counter counts datagrams by their senders, and answers those that ask.
type counter struct {
	fd    int
	from  map[netip.AddrPort]int64
	msgs  [sinkBatch]mmsghdr
	names [sinkBatch]unix.RawSockaddrInet6
	iovs  [sinkBatch]unix.Iovec
	ctrl  [sinkBatch][64]byte
	data  [sinkBatch][64 << 10]byte
}

const sinkBatch = 32

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

func newCounter(at netip.AddrPort) (*counter, error) {
	fd, err := listen(unix.SOCK_DGRAM, at)
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) // what is lost is lost on the way
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	c := &counter{fd: fd, from: map[netip.AddrPort]int64{}}
	for i := range c.msgs {
		c.iovs[i].Base = &c.data[i][0]
		c.iovs[i].SetLen(len(c.data[i]))
		h := &c.msgs[i].hdr
		h.Iov, h.Name, h.Control = &c.iovs[i], (*byte)(unsafe.Pointer(&c.names[i])), &c.ctrl[i][0]
		h.SetIovlen(1)
	}
	return c, nil
}

// take counts what is there.
func (c *counter) take() {
	for i := range c.msgs {
		c.msgs[i].hdr.Namelen = unix.SizeofSockaddrInet6
		c.msgs[i].hdr.SetControllen(len(c.ctrl[i]))
	}
	n, _, e := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&c.msgs[0])), sinkBatch,
		unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return
	}
	for i := range int(n) {
		from, size := c.sender(i), int(c.msgs[i].n)
		c.from[from] += int64(size / datagramSize)
		if string(c.data[i][size-size%datagramSize:size]) == question { // maybe behind others, as one piece
			c.answer(i, c.from[from])
		}
	}
}

func (c *counter) sender(i int) netip.AddrPort {
	raw := &c.names[i]
	port := raw.Port<<8 | raw.Port>>8
	if raw.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(raw)).Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(raw.Addr), port)
}

func (c *counter) answer(i int, n int64) {
	said := binary.BigEndian.AppendUint64(nil, uint64(n))
	_, _, _ = unix.Syscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&said[0])), uintptr(len(said)), 0,
		uintptr(unsafe.Pointer(&c.names[i])), uintptr(c.msgs[i].hdr.Namelen))
}
