package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ConntrackEvents receives what happens to the conntrack table of the network namespace in which it was opened. One
// goroutine uses it. The kernel never waits for it: what its buffer has no room for is lost, and counted.
type ConntrackEvents struct {
	opts ConntrackEventOptions
	fd   int
	lost uint32 // as the kernel counted when it was last asked

	messages [eventsAtOnce]mmsghdr // each is read into its part of buf
	vectors  [eventsAtOnce]unix.Iovec
	buf      [eventsAtOnce][flowAnswerSize]byte
}

// eventsAtOnce is how many events one system call reads.
const eventsAtOnce = 32

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	header unix.Msghdr
	n      uint32
}

// ConntrackEventOptions say which events are received.
type ConntrackEventOptions struct {
	Begins bool // events of flows that begin too, beside flows that end
	Any    bool // events also of flows whose destination is not translated by rules, as with IPVS
	Buffer int  // bytes for events not yet received, each a kilobyte or less
}

// OpenConntrackEvents subscribes to events. Since Linux 5.19 a flow that began while nobody had subscribed reports no
// end. Needs CAP_NET_ADMIN.
func OpenConntrackEvents(opts ConntrackEventOptions) (*ConntrackEvents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a socket for conntrack events: %w", err)
	}
	c := &ConntrackEvents{opts: opts, fd: fd}
	for i := range c.messages {
		c.vectors[i].Base = &c.buf[i][0]
		c.vectors[i].SetLen(len(c.buf[i]))
		c.messages[i].header.Iov = &c.vectors[i]
		c.messages[i].header.SetIovlen(1)
	}
	if err := c.subscribe(); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("subscribe to conntrack events: %w", err)
	}
	return c, nil
}

func (c *ConntrackEvents) subscribe() error {
	groups := uint32(1) << (unix.NFNLGRP_CONNTRACK_DESTROY - 1)
	if c.opts.Begins {
		groups |= 1 << (unix.NFNLGRP_CONNTRACK_NEW - 1)
	}
	return errors.Join(
		unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, c.opts.Buffer),
		unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_NO_ENOBUFS, 1), // after a loss the next event is received
		c.Filter(false),
		unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}),
	)
}

// Filter has the kernel leave out what the options do, and if onlyFailures is set also flows that ended as they should,
// and all that begin.
func (c *ConntrackEvents) Filter(onlyFailures bool) error {
	program := flowFilter(c.opts.Any, onlyFailures)
	return unix.SetsockoptSockFprog(c.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// maxEvents is how many events one call of Receive reads.
const maxEvents = 1 << 14

// Receive waits for the first event, at most that long, and calls each with every event that is queued: the flow begins
// or ends, and its attributes after struct nfgenmsg, valid during the call. Lost is how many events were lost
// since the last call.
func (c *ConntrackEvents) Receive(wait time.Duration, each func(begins bool, flow []byte)) (lost uint64, err error) {
	poll := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, int(wait/time.Millisecond)); err != nil && !errors.Is(err, unix.EINTR) {
		return 0, fmt.Errorf("wait for conntrack events: %w", err)
	}
	for range maxEvents / eventsAtOnce {
		n, err := c.read()
		if err != nil {
			return 0, fmt.Errorf("read conntrack events: %w", err)
		}
		for i := range c.messages[:n] {
			eachFlow(c.buf[i][:c.messages[i].n], each)
		}
		if n < eventsAtOnce {
			break
		}
	}
	return c.countLost()
}

// read reads what is queued, 0 messages if nothing is.
func (c *ConntrackEvents) read() (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&c.messages[0])),
		eventsAtOnce, unix.MSG_DONTWAIT, 0, 0)
	switch e {
	case 0:
		return int(n), nil
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	}
	return 0, e
}

// eachFlow calls each with the flows of the messages in a datagram.
func eachFlow(b []byte, each func(begins bool, flow []byte)) {
	for len(b) >= unix.SizeofNlMsghdr+nl.SizeofNfgenmsg {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr+nl.SizeofNfgenmsg || size > len(b) {
			return
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NFNL_SUBSYS_CTNETLINK<<8 | nl.IPCTNL_MSG_CT_NEW:
			each(true, b[unix.SizeofNlMsghdr+nl.SizeofNfgenmsg:size])
		case unix.NFNL_SUBSYS_CTNETLINK<<8 | nl.IPCTNL_MSG_CT_DELETE:
			each(false, b[unix.SizeofNlMsghdr+nl.SizeofNfgenmsg:size])
		}
		b = b[min(len(b), (size+3)&^3):]
	}
}

// countLost asks the kernel how many events the socket has dropped.
func (c *ConntrackEvents) countLost() (uint64, error) {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(c.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0, fmt.Errorf("count lost conntrack events: %w", e)
	}
	now := info[unix.SK_MEMINFO_DROPS]
	lost := now - c.lost // also after an overflow
	c.lost = now
	return uint64(lost), nil
}

// Close closes the socket.
func (c *ConntrackEvents) Close() error { return unix.Close(c.fd) }
