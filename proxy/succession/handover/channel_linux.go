package handover

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/portald/portald/platform"
)

// channel passes messages and descriptors between two processes of one user. One goroutine sends, and one receives.
type channel struct {
	unix   *net.UnixConn
	most   int           // bytes of a message: what the kernel has room for
	step   time.Duration // bounds each answer: see there
	slow   time.Duration // what the other side may take its time for: see there
	write  time.Duration // bounds each send
	in     []byte
	oob    []byte
	silent bool // the other process has ended: nothing is sent
}

func newChannel(c *net.UnixConn) (*channel, error) {
	err := platform.CheckPeer(c)
	most := 0
	if err == nil {
		most, err = sendBuffer(c)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &channel{
		unix: c, most: most, step: step, slow: slow, write: step,
		in: make([]byte, maxMessage+1), oob: make([]byte, syscall.CmsgSpace(4*maxFiles)),
	}, nil
}

// sendBuffer makes the send buffer as large as it may be, and returns how many bytes one message may have: where the
// host bounds the buffer (net.core.wmem_max), that is less than maxMessage.
func sendBuffer(c *net.UnixConn) (most int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		const own = 32 // of the buffer, the kernel's: see net/unix/af_unix.c
		if syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUFFORCE, 2*maxMessage) != nil {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 2*maxMessage)
		}
		if err == nil {
			most, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
			most = min(maxMessage, most-own)
		}
	})
	return most, errors.Join(err, failed)
}

// inMessages calls send with as many items as one message has room for, in order, and without with the place of each
// that has no room in any.
func (c *channel) inMessages(all []item, send func(some []item) error, without func(at int)) error {
	for at := 0; at < len(all); {
		n := firstOf(all[at:], c.most)
		if n == 0 {
			without(at)
			at++
			continue
		}
		if err := send(all[at : at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// send sends a message with descriptors, which stay open here.
func (c *channel) send(k kind, body any, files ...int) error {
	if c.silent {
		return nil
	}
	message, err := encode(k, body)
	if err != nil {
		return err
	}
	if len(message) > c.most || len(files) > maxFiles {
		return fmt.Errorf("send %s of %d bytes with %d descriptors: %w", k, len(message), len(files), ErrTruncated)
	}
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	_ = c.unix.SetWriteDeadline(time.Now().Add(c.write)) // it cannot fail on a socket that is open
	if _, _, err := c.unix.WriteMsgUnix(message, rights, nil); err != nil {
		return fmt.Errorf("send %s: %w", k, err)
	}
	return nil
}

// asBefore has receive wait until the deadline that is set.
const asBefore = -1

// receive waits for a message, for ever where within is 0. Descriptors are the caller's, but not with an error. The
// message is valid until the next receive.
func (c *channel) receive(within time.Duration) (message []byte, files []int, err error) {
	var until time.Time
	if within > 0 {
		until = time.Now().Add(within)
	}
	if within != asBefore {
		_ = c.unix.SetReadDeadline(until) // it cannot fail on a socket that is open
	}
	n, oobn, flags, _, err := c.unix.ReadMsgUnix(c.in, c.oob)
	if errors.Is(err, syscall.ECONNRESET) { // the other end has closed before it read all: what it sent is still here
		n, oobn, flags, _, err = c.unix.ReadMsgUnix(c.in, c.oob)
	}
	files, failed := descriptors(c.oob[:oobn])
	switch {
	case errors.Is(err, io.EOF) && !c.ended(): // it was an empty message
		err = ErrTruncated
	case err == nil && flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0:
		err = ErrTruncated
	case err == nil:
		err = failed
	}
	if err != nil {
		closeAll(files)
		return nil, nil, err
	}
	return c.in[:n], files, nil
}

// pending tells whether a message waits to be received, or the other end has closed.
func (c *channel) pending() bool {
	_, err := c.peek()
	return !errors.Is(err, syscall.EAGAIN)
}

// ended tells whether the other end has closed, and nothing is left of what it sent.
func (c *channel) ended() bool {
	n, err := c.peek()
	return n <= 0 && !errors.Is(err, syscall.EAGAIN)
}

// peek looks at the first byte of the next message, and does not wait.
func (c *channel) peek() (n int, err error) {
	raw, err := c.unix.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		n, _, err = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return n, errors.Join(failed, err)
}

func descriptors(oob []byte) (files []int, err error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		some, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		files = append(files, some...)
	}
	return files, nil
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = syscall.Close(fd) // it is open
	}
}

// expect waits for one kind of message, one without descriptors, and decodes it into body unless that is nil.
func (c *channel) expect(k kind, body any, within time.Duration) error {
	message, files, err := c.receive(within)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", k, err)
	}
	closeAll(files)
	return understand(message, k, body)
}

// understand decodes a message of the kind that is expected.
func understand(message []byte, k kind, body any) (err error) {
	switch {
	case kind(message[0]) == refusal:
		var r Refusal
		err = decode(message, &r)
		if err == nil {
			err = errors.New(r.Why)
		}
	case kind(message[0]) == abort:
		err = ErrAborted
	case kind(message[0]) != k:
		err = fmt.Errorf("%w %s, want %s", ErrUnexpected, kind(message[0]), k)
	case body != nil:
		err = decode(message, body)
	}
	return err
}

// finish closes the channel so that the other end still gets all that was sent: the kernel would report a reset first
// if anything were left unread here.
func (c *channel) finish() {
	_ = c.unix.CloseRead() // from now on the other end cannot send
	_ = c.unix.SetReadDeadline(time.Now().Add(c.step))
	for {
		n, oobn, _, _, err := c.unix.ReadMsgUnix(c.in, c.oob)
		if files, _ := descriptors(c.oob[:oobn]); len(files) > 0 {
			closeAll(files)
		}
		if err != nil || n == 0 {
			break
		}
	}
	c.close()
}

func (c *channel) close() { _ = c.unix.Close() } // nothing is left to be sent
