package nftables

import (
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The kernel numbers all changes to tables of a network namespace. Where none came but ours, all stands as written.

func generationQuestion() netlink.Message { return message(unix.NFT_MSG_GETGEN, 0, family{}, nil) }

// generation is the number of the last change, which is never 0.
func (c *conn) generation() (gen uint32, err error) {
	answers, err := c.ask(generationQuestion())
	for _, m := range answers {
		if len(m.Data) >= 4 && err == nil {
			err = decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
				if d.Type() == unix.NFTA_GEN_ID {
					gen = d.Uint32()
				}
			})
		}
	}
	return gen, err
}

// observe begins to watch for changes of others, before all is written anew.
func (c *conn) observe() (err error) {
	c.seen, err = c.generation()
	return err
}

// advance goes on after so many changes of ours. A change of others among them has the next audit look.
func (c *conn) advance(ours int) error {
	gen, err := c.generation()
	c.seen = choose(c.seen != 0 && gen == c.seen+uint32(ours), gen, 0)
	return err
}

// unchanged tells whether no change but ours came since, and which was the last.
func (c *conn) unchanged() (gen uint32, same bool, err error) {
	gen, err = c.generation()
	return gen, err == nil && gen == c.seen, err
}

// largest is the size up to which the kernel fills an answer to a list, once it has seen a buffer for that. It looks for
// its place from the beginning of a set for each: long sets take far longer by small answers.
const largest = 32 << 10

// prime shows the kernel such a buffer.
func (c *conn) prime() error {
	if err := c.netlink.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	raw, err := c.netlink.SyscallConn()
	if err != nil {
		return err
	}
	if _, err := c.netlink.Send(generationQuestion()); err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		_, _, failed = unix.Recvfrom(int(fd), make([]byte, largest), 0)
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	return err
}

func (c *conn) close() error { return c.netlink.Close() }
