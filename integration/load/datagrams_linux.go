package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	datagramSize   = 1200 // bytes of one, as of QUIC
	datagramsACall = 44   // with GSO, as QUIC libraries send
	question       = "how many?"
)

// Datagrams sends datagrams to a Sink, from one port.
type Datagrams struct {
	To   netip.AddrPort
	GSO  bool // one call sends many, which the kernel segments (UDP_SEGMENT); else each has a call
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
	if c.GSO {
		size, each = datagramsACall*datagramSize, datagramsACall
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, datagramSize); err != nil {
			return r, fmt.Errorf("set UDP_SEGMENT: %w", err)
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
	fd   int
	from map[netip.AddrPort]int64
	name unix.RawSockaddrInet6 // of the sender of data
	data [64 << 10]byte
}

func newCounter(at netip.AddrPort) (*counter, error) {
	fd, err := listen(unix.SOCK_DGRAM, at)
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) // what is lost is lost on the way
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	return &counter{fd: fd, from: map[netip.AddrPort]int64{}}, nil
}

// take counts what is there, and returns after a while for the sake of others.
func (c *counter) take() {
	for range 32 {
		size := uint32(unix.SizeofSockaddrInet6)
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&c.data)),
			uintptr(len(c.data)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&c.name)), uintptr(unsafe.Pointer(&size)))
		if e != 0 {
			return
		}
		from := c.sender()
		c.from[from] += int64(n / datagramSize)
		if string(c.data[n-n%datagramSize:n]) == question { // maybe behind others, as one buffer
			c.answer(c.from[from], size)
		}
	}
}

func (c *counter) sender() netip.AddrPort {
	port := c.name.Port<<8 | c.name.Port>>8
	if c.name.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&c.name)).Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(c.name.Addr), port)
}

func (c *counter) answer(n int64, size uint32) {
	said := binary.BigEndian.AppendUint64(nil, uint64(n))
	_, _, _ = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&said[0])), uintptr(len(said)),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&c.name)), uintptr(size))
}
