package handover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Stored is where a daemon leaves all that it hands over if its successor starts only once it has ended: the queue
// between two connected sockets, which holds messages and descriptors for as long as somebody keeps both open. To the
// successor the messages look as from a predecessor that has died after the last one.
type Stored struct {
	Out, In *os.File // what is written to In is read from Out
}

// NewStored makes an empty one.
func NewStored() (*Stored, error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets to store: %w", err)
	}
	const name = "stored hand-over"
	return &Stored{Out: os.NewFile(uintptr(ends[0]), name), In: os.NewFile(uintptr(ends[1]), name)}, nil
}

// Close closes both ends here. The stored messages are lost unless both ends are open elsewhere too.
func (d *Stored) Close() error { return errors.Join(d.Out.Close(), d.In.Close()) }

// Successor is one that takes all that it is given.
func (d *Stored) Successor(own Identity) (*Successor, error) {
	c, err := openEnd(d.In)
	if err != nil {
		return nil, err
	}
	to := &Successor{
		// Who takes it may be older than Hello.Waits.
		Hello: Hello{Identity: Identity{Installation: own.Installation}, Protocol: Protocol, State: State},
		c:     c, room: storedFiles, later: true,
	}
	// All has to have room in the queue: what any user may set is not enough for a hundred connections.
	err = control(d.In, func(fd int) error {
		return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUFFORCE, storedSize)
	})
	if err == nil {
		err = c.send(welcome, Welcome{Identity: own, Protocol: Protocol, State: State})
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("make a pair of sockets to store: %w", err)
	}
	return to, nil
}

// The most that a stored hand-over takes: descriptors, and bytes. The kernel doubles the latter.
const (
	storedFiles = 1 << 30
	storedSize  = 1<<30 - 1
)

// Predecessor is the one that has filled the stored hand-over, which is closed here.
func (d *Stored) Predecessor(own Identity) (*Predecessor, error) {
	// After what is there comes the end, whoever else has the sockets open.
	err := control(d.In, func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_WR) })
	var c *channel
	if err == nil {
		c, err = openEnd(d.Out)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("open the stored hand-over: %w", err)
	}
	c.silent = true
	p := &Predecessor{c: c}
	err = c.expect(welcome, &p.Welcome, step)
	switch {
	case err != nil:
	case p.Protocol != Protocol:
		err = fmt.Errorf("portald %s speaks version %d of the protocol, this one version %d", p.Version, p.Protocol,
			Protocol)
	case p.Installation != own.Installation:
		err = fmt.Errorf("it is that of %q, not %q", p.Installation, own.Installation)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("read the stored hand-over: %w", err)
	}
	return p, nil
}

// openEnd is the channel at an end of a stored.
func openEnd(end *os.File) (*channel, error) {
	conn, err := net.FileConn(end)
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("a stored hand-over is a pair of Unix sockets"), conn.Close())
	}
	return newChannel(unix)
}

func control(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = call(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

// understood returns an error if this daemon cannot go on with the connections of a stored. Nobody else can.
func (p *Predecessor) understood() error {
	if p.c.silent && p.State != State {
		return fmt.Errorf("%w, and connections were stored in format %d, of which this one knows %d", ErrDied, p.State, State)
	}
	return nil
}
