package load

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Downloads receives as much as will come from a Source, and drops it unread.
type Downloads struct {
	To      netip.AddrPort
	Streams int  // at once, a connection each
	Up      bool // it sends as much as will go at the same time
	For     time.Duration
}

// DownloadsResult is what arrived here, and with Up what was sent and acknowledged.
type DownloadsResult struct {
	Bytes   int64         `json:"bytes"`
	Up      int64         `json:"up"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// Run receives for the time given, and until something has come.
func (c Downloads) Run(ctx context.Context) (r DownloadsResult, err error) {
	b := &bulk{Bulk: Bulk{To: c.To, Streams: c.Streams}}
	defer b.close()
	if err := b.open(); err != nil {
		return r, err
	}
	var watched uint32 = unix.EPOLLIN
	if c.Up {
		watched |= unix.EPOLLOUT
	}
	for i, fd := range b.streams {
		event := unix.EpollEvent{Events: watched, Fd: int32(i)}
		if err := unix.EpollCtl(b.poll.fd, unix.EPOLL_CTL_MOD, fd, &event); err != nil {
			return r, err
		}
	}
	start := time.Now()
	over := func(ran time.Duration) bool { return ran >= c.For && (r.Bytes > 0 || ran >= c.For+patience) }
	for !over(time.Since(start)) && ctx.Err() == nil {
		events, err := b.poll.wait(100)
		if err != nil {
			return r, err
		}
		for i := range events {
			fd := b.streams[events[i].Fd]
			if err := c.move(fd, events[i].Events, b.buf[:], &r); err != nil {
				return r, fmt.Errorf("with %s: %w", c.To, err)
			}
		}
	}
	r.Elapsed = time.Since(start)
	for _, fd := range b.streams {
		if n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil {
			r.Up -= int64(n)
		}
	}
	return r, ctx.Err()
}

// move takes what a stream has, and sends what it has room for.
func (c Downloads) move(fd int, events uint32, data []byte, r *DownloadsResult) error {
	if events&unix.EPOLLIN != 0 {
		n, err := discard(fd)
		if err == nil && n == 0 {
			err = fmt.Errorf("the connection was closed")
		}
		if err != nil && err != unix.EAGAIN {
			return err
		}
		r.Bytes += int64(n)
	}
	if events&unix.EPOLLOUT != 0 {
		n, err := send(fd, data)
		if err != nil && err != unix.EAGAIN {
			return err
		}
		r.Up += int64(n)
	}
	return nil
}

// discard takes what is there. MSG_TRUNC frees TCP's bytes without copying them anywhere: tcp(7).
func discard(fd int) (int, error) {
	var room byte
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&room)), dropSize,
		unix.MSG_TRUNC|unix.MSG_DONTWAIT, 0, 0)
	return outcome(n, e)
}

// Source sends as much as will go to each that connects, by TCP, and drops what comes from it, until ctx ends.
func Source(ctx context.Context, at netip.AddrPort) error {
	poll, err := newPoll()
	if err != nil {
		return err
	}
	open := map[int]struct{}{}
	defer func() {
		for fd := range open {
			closeFD(fd)
		}
		closeFD(poll.fd)
	}()
	ln, err := listen(unix.SOCK_STREAM, at)
	if err != nil {
		return fmt.Errorf("listen at tcp %s: %w", at, err)
	}
	defer closeFD(ln)
	if err := poll.add(ln, ln, unix.EPOLLIN); err != nil {
		return err
	}
	data := make([]byte, sendSize)
	for ctx.Err() == nil {
		events, err := poll.wait(200)
		if err != nil {
			return err
		}
		for i := range events {
			fd := int(events[i].Fd)
			if fd == ln {
				for fd := range accepted(ln) {
					if poll.add(fd, fd, unix.EPOLLIN|unix.EPOLLOUT) == nil {
						open[fd] = struct{}{}
					} else {
						closeFD(fd)
					}
				}
				continue
			}
			if !serveSource(fd, events[i].Events, data) {
				delete(open, fd)
				closeFD(fd)
			}
		}
	}
	return nil
}

// serveSource sends on a connection, and drops what has come. False: it is over.
func serveSource(fd int, events uint32, data []byte) bool {
	if events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		if n, err := discard(fd); err == nil && n == 0 || err != nil && err != unix.EAGAIN {
			return false
		}
	}
	if events&unix.EPOLLOUT != 0 {
		if _, err := send(fd, data); err != nil && err != unix.EAGAIN {
			return false
		}
	}
	return true
}
