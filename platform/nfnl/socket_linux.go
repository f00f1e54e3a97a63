package nfnl

import (
	"errors"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

func dial() (*netlink.Conn, error) { return netlink.Dial(unix.NETLINK_NETFILTER, nil) }

// maxMessage is how much of the socket's send buffer one message may fill, in bytes.
func (c *Conn) maxMessage() (size int, err error) {
	raw, err := c.netlink.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF) })
	return size - 4096, errors.Join(failed, err)
}

// dumpSize is the size up to which the kernel fills each part of a dump, once it has seen a buffer of that size. For
// each part it looks for its place from the beginning of a set: small parts make long sets far slower.
const dumpSize = 32 << 10

// growDumps shows the kernel such a buffer.
func (c *Conn) growDumps() error {
	if err := c.netlink.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	raw, err := c.netlink.SyscallConn()
	if err != nil {
		return err
	}
	if _, err := c.netlink.Send(generationRequest()); err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		_, _, failed = unix.Recvfrom(int(fd), make([]byte, dumpSize), 0)
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	return err
}

// discardAnswers reads answers to earlier requests, without waiting: a transaction has one for each message that
// failed, of which only the first is used, and an answer may come after its timeout. Each would be taken for the answer
// to the next request. The kernel answers before a send returns, so that no other comes later.
func (c *Conn) discardAnswers() error {
	raw, err := c.netlink.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed == nil || failed == unix.ENOBUFS || failed == unix.EINTR { // lost answers are an error once
			_, _, failed = unix.Recvfrom(int(fd), nil, unix.MSG_DONTWAIT)
		}
	})
	if failed != unix.EAGAIN {
		err = errors.Join(err, failed)
	}
	return err
}

// Kernel names the running kernel with its release.
func Kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "this kernel"
	}
	return "Linux " + unix.ByteSliceToString(name.Release[:])
}
