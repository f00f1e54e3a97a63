// Package nfnl speaks nf_tables' netlink protocol: the encoding of its messages, which is the same on every system, and
// on Linux a socket that commits transactions, lists the kernel's objects, and follows the generation id. It does not
// know what tables, chains and rules are for.
//
//	c, err := nfnl.Dial()
//	err = c.Commit(ctx, []nfnl.Step{messages}) // one transaction: all or nothing
//	err = c.List(request, func(attributes []byte) error { ... })
package nfnl

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
)

// Conn is a socket to nf_tables, of the network namespace in which it was opened. One goroutine uses it.
type Conn struct {
	// MaxBatch is the size in bytes up to which Commit makes one transaction of several steps.
	MaxBatch int

	netlink  *netlink.Conn
	verified uint32 // the generation id at which the tables were as written; 0 = unknown
}

// Step is messages that have to take effect at once.
type Step []Message

// sendBuffer is wanted for the socket: it holds some ten thousand service ports. A process without CAP_NET_ADMIN in the
// initial user namespace gets less (net.core.wmem_max).
const sendBuffer = 32 << 20

// answerTimeout bounds the wait for an answer, which the kernel gives at once.
const answerTimeout = 30 * time.Second

// Dial opens a socket in the network namespace of the calling thread.
func Dial() (*Conn, error) {
	n, err := dial()
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	c := &Conn{netlink: n}
	if err = n.SetWriteBuffer(sendBuffer); err == nil {
		c.MaxBatch, err = c.maxMessage()
	}
	if err == nil {
		err = c.growDumps()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("size the netlink socket: %w", err), n.Close())
	}
	return c, nil
}

// Close closes the socket.
func (c *Conn) Close() error { return c.netlink.Close() }

// Commit applies steps in their order: in one transaction if the socket takes them at once, else in several.
func (c *Conn) Commit(ctx context.Context, steps []Step) error {
	transactions := 0
	for ; len(steps) > 0; transactions++ {
		var messages []Message
		for size := 0; len(steps) > 0; steps = steps[1:] {
			size += Size(steps[0])
			if len(messages) > 0 && size > c.MaxBatch {
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
	return c.Wrote(transactions)
}

// transact sends messages as one transaction. Only the last is to be acknowledged: a thousand answers would not fit
// into the socket's buffer. The kernel reports errors unasked, before that.
func (c *Conn) transact(messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	return c.send(messages, batch(messages))
}

// Check has the kernel validate messages as Commit does, and abort: the batch has no end.
func (c *Conn) Check(messages []Message) error {
	all := batch(messages)
	return c.send(messages, all[:len(all)-1])
}

// send sends a batch of messages and waits for the answer to the last of these.
func (c *Conn) send(messages, batch []Message) error {
	if err := c.discardAnswers(); err != nil {
		return err
	}
	batch[len(messages)].Header.Flags |= netlink.Acknowledge
	sent, err := c.netlink.SendMessages(batch)
	if err != nil {
		return err
	}
	if err := c.netlink.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	last := sent[len(messages)].Header.Sequence
	for {
		answers, err := c.netlink.Receive()
		if errors.Is(err, syscall.ENOBUFS) { // more errors than the socket holds, of which the first is wanted
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

// List sends a request, and calls each with the attributes of every answer.
func (c *Conn) List(request Message, each func([]byte) error) error {
	if err := c.discardAnswers(); err != nil {
		return err
	}
	if err := c.netlink.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	answers, err := c.netlink.Execute(request)
	for _, m := range answers {
		if list := body(m); err == nil && list != nil {
			err = each(list)
		}
	}
	return err
}
