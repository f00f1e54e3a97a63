package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Bytes of one call in bulk.
const (
	sendSize = 128 << 10
	dropSize = 1 << 20
)

// Bulk sends as much as will go to a Sink, which drops it unread. It sends as most programs do, from memory: what goes
// out of a file without a copy travels in single pages, at which splicing costs twice.
type Bulk struct {
	To      netip.AddrPort
	Streams int  // at once, a connection each
	Apart   bool // a thread for each, as of programs of their own: there is always more to send
	For     time.Duration
}

// BulkResult is the Sink's count of bytes that arrived.
type BulkResult struct {
	Bytes   int64         `json:"bytes"`
	Elapsed time.Duration `json:"elapsed_ns"` // until the last byte was there
}

type bulk struct {
	Bulk
	poll    *poll
	buf     [sendSize]byte // small enough to stay in the cache
	streams []int          // descriptors
	counted int            // streams whose count has arrived
	bytes   int64
}

// Run sends for the time given, ends its direction of each connection, and waits for the Sink's count.
func (c Bulk) Run(ctx context.Context) (BulkResult, error) {
	b := &bulk{Bulk: c}
	defer b.close()
	if err := b.open(); err != nil {
		return BulkResult{}, err
	}
	start := time.Now()
	send := b.send
	if c.Apart {
		send = b.sendApart
	}
	if err := send(ctx, start.Add(c.For)); err != nil {
		return BulkResult{}, fmt.Errorf("send to %s: %w", c.To, err)
	}
	if err := b.counts(ctx); err != nil {
		return BulkResult{}, fmt.Errorf("wait for the count of %s: %w", c.To, err)
	}
	return BulkResult{Bytes: b.bytes, Elapsed: time.Since(start)}, nil
}

func (b *bulk) open() (err error) {
	if b.poll, err = newPoll(); err != nil {
		return err
	}
	for i := range b.Streams {
		if err := b.connect(i); err != nil {
			return fmt.Errorf("connect to %s: %w", b.To, err)
		}
	}
	return nil
}

func (b *bulk) connect(i int) error {
	fd, err := unix.Socket(family(b.To.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	b.streams = append(b.streams, fd)
	if err := unix.Connect(fd, sockaddr(b.To)); err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return b.poll.add(fd, i, unix.EPOLLOUT)
}

func (b *bulk) send(ctx context.Context, until time.Time) error {
	for time.Now().Before(until) {
		events, err := b.poll.wait(100)
		if err != nil {
			return err
		}
		for i := range events {
			if _, err := send(b.streams[events[i].Fd], b.buf[:]); err != nil && err != unix.EAGAIN {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// sendApart has a thread for each stream, which the kernel holds while the stream is full.
func (b *bulk) sendApart(ctx context.Context, until time.Time) error {
	ctx, stop := context.WithDeadline(ctx, until)
	defer stop()
	errs := make(chan error, len(b.streams))
	for _, fd := range b.streams {
		go func() { errs <- fill(ctx, fd, b.buf[:]) }()
	}
	var first error
	for range b.streams {
		if err := <-errs; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

// fill sends on one stream until ctx ends. A stream that is full is waited for, and looked after now and then.
func fill(ctx context.Context, fd int, data []byte) error {
	for ctx.Err() == nil {
		if _, err := send(fd, data); err == nil {
			continue
		} else if err != unix.EAGAIN {
			return err
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 100); err != nil && err != unix.EINTR {
			return err
		}
	}
	return nil
}

// counts ends the sending and adds up what the Sink got.
func (b *bulk) counts(ctx context.Context) error {
	for i, fd := range b.streams {
		if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
			return err
		}
		if err := unix.EpollCtl(b.poll.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: unix.EPOLLIN,
			Fd: int32(i)}); err != nil {
			return err
		}
	}
	least := math.MaxInt
	var end time.Time
	for b.counted < len(b.streams) {
		if left := b.unsent(); left < least || end.IsZero() {
			least, end = left, time.Now().Add(deadAfter)
		}
		events, err := b.poll.wait(100)
		if err != nil {
			return err
		}
		for i := range events {
			if err := b.count(b.streams[events[i].Fd]); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d counts arrived, and nothing moved for %v", b.counted, len(b.streams), deadAfter)
		}
	}
	return nil
}

// unsent is how many bytes are on their way still, and how many streams without their count.
func (b *bulk) unsent() int {
	all := len(b.streams) - b.counted
	for _, fd := range b.streams {
		n, _ := unix.IoctlGetInt(fd, unix.SIOCOUTQ) // fails once the stream is closed
		all += n
	}
	return all
}

func (b *bulk) count(fd int) error {
	var said [8]byte
	n, err := read(fd, said[:])
	if err == nil && n != len(said) {
		err = fmt.Errorf("connection closed without a count")
	}
	if err != nil {
		return err
	}
	b.bytes += int64(binary.BigEndian.Uint64(said[:]))
	b.counted++
	return unix.EpollCtl(b.poll.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

func (b *bulk) close() {
	for _, fd := range b.streams {
		closeFD(fd)
	}
	if b.poll != nil {
		closeFD(b.poll.fd)
	}
}
