package nftables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// conn is a socket to nftables, of the network namespace in which it was opened.
type conn struct {
	netlink *netlink.Conn
	most    int    // the size of a batch that it takes, in bytes
	seen    uint32 // the generation at which what is ours stood as written; 0 = unknown
}

// wantedBatch holds some ten thousand service ports. Who is not real root gets less (net.core.wmem_max).
const wantedBatch = 32 << 20

// answerTime bounds the wait for an answer, which the kernel gives at once.
const answerTime = 30 * time.Second

func dial() (*conn, error) {
	n, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	c := &conn{netlink: n}
	if err = n.SetWriteBuffer(wantedBatch); err == nil {
		c.most, err = c.buffer()
	}
	if err == nil {
		err = c.prime()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("size the netlink socket: %w", err), n.Close())
	}
	return c, nil
}

// buffer is what of the socket's send buffer a message may fill.
func (c *conn) buffer() (size int, err error) {
	raw, err := c.netlink.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF) })
	return size - 4096, errors.Join(failed, err)
}

// commit makes steps take effect: in one transaction if the socket takes them at once, else in several, in their order.
func (c *conn) commit(ctx context.Context, steps [][]netlink.Message) error {
	batches := 0
	for ; len(steps) > 0; batches++ {
		var messages []netlink.Message
		for size := 0; len(steps) > 0; steps = steps[1:] {
			size += sizeOf(steps[0])
			if len(messages) > 0 && size > c.most {
				break
			}
			messages = append(messages, steps[0]...)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.transact(messages); err != nil {
			return err
		}
	}
	return c.advance(batches)
}

func sizeOf(messages []netlink.Message) (size int) {
	for _, m := range messages {
		size += unix.NLMSG_HDRLEN + len(m.Data) + unix.NLMSG_ALIGNTO
	}
	return size
}

// transact sends messages as one transaction. Only the last is asked to be acknowledged: a thousand answers would not fit
// into the socket's buffer. Errors come unasked, before that.
func (c *conn) transact(messages []netlink.Message) error {
	if len(messages) == 0 {
		return nil
	}
	return c.send(messages, bracketed(messages))
}

// check has the kernel look at messages as transact does, and take back what they did.
func (c *conn) check(messages []netlink.Message) error {
	batch := bracketed(messages)
	return c.send(messages, batch[:len(batch)-1])
}

// send sends messages between their marks and waits for the answers.
func (c *conn) send(messages, batch []netlink.Message) error {
	if err := c.drain(); err != nil {
		return err
	}
	batch[len(messages)].Header.Flags |= netlink.Acknowledge
	sent, err := c.netlink.SendMessages(batch)
	if err != nil {
		return err
	}
	if err := c.netlink.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	last := sent[len(messages)].Header.Sequence
	for {
		answers, err := c.netlink.Receive()
		if errors.Is(err, unix.ENOBUFS) { // there are more errors than the socket holds, and the first is wanted
			answers, err = c.netlink.Receive()
		}
		if err != nil {
			return fmt.Errorf("change %d things at once: %w", len(messages), err)
		}
		for _, m := range answers {
			if m.Header.Type == netlink.Error && m.Header.Sequence == last {
				return nil
			}
		}
	}
}

// ask sends one question and returns the answers.
func (c *conn) ask(m netlink.Message) ([]netlink.Message, error) {
	if err := c.drain(); err != nil {
		return nil, err
	}
	if err := c.netlink.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	return c.netlink.Execute(m)
}

// bracketed puts messages between the marks of a transaction.
func bracketed(messages []netlink.Message) []netlink.Message {
	mark := func(kind netlink.HeaderType) netlink.Message {
		return netlink.Message{
			Header: netlink.Header{Type: kind, Flags: netlink.Request},
			Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES},
		}
	}
	all := make([]netlink.Message, 0, len(messages)+2)
	all = append(all, mark(unix.NFNL_MSG_BATCH_BEGIN))
	all = append(all, messages...)
	return append(all, mark(unix.NFNL_MSG_BATCH_END))
}

// drain throws away what answers to earlier messages are left: a transaction has one for each of its messages that failed,
// of which the first is read, and one whose answer did not come in time may have it later. Without it each answer would be
// taken for that to the next question. The kernel answers before a message is sent, so what is not there does not come.
func (c *conn) drain() error {
	raw, err := c.netlink.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed == nil || failed == unix.ENOBUFS || failed == unix.EINTR { // answers that were lost are an error once
			_, _, failed = unix.Recvfrom(int(fd), nil, unix.MSG_DONTWAIT)
		}
	})
	if failed != unix.EAGAIN {
		err = errors.Join(err, failed)
	}
	return err
}
