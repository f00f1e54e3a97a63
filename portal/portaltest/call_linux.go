package portaltest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/netnstest"
)

// Reply is the outcome of a request.
type Reply struct {
	Came string     // Answered, Refused, Silence or another error
	By   string     // the name of the Party that answered; empty when the daemon's stand-in did
	Saw  netip.Addr // the client, as that Party saw it
}

// Call is an open connection, or a UDP flow.
type Call struct {
	conn  net.Conn
	lines *bufio.Reader
	wait  time.Duration
}

// Dial opens a call from an address of the namespace, or from any if that is the zero address. A call that takes longer
// than wait is silence.
func Dial(from *netnstest.Namespace, network, addr string, local netip.Addr, wait time.Duration) (*Call, error) {
	var c *Call
	err := from.Do(func() error {
		var err error
		c, err = dial(network, addr, local, wait)
		return err
	})
	return c, err
}

func dial(network, addr string, local netip.Addr, wait time.Duration) (*Call, error) {
	conn, err := connect(network, addr, local, wait)
	if err != nil {
		return nil, err
	}
	return &Call{conn, bufio.NewReader(conn), wait}, nil
}

// connect dials from a port that was not used lately: IPVS has one connection of a client port to one endpoint.
func connect(network, addr string, local netip.Addr, wait time.Duration) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: wait, Control: reuse}
	for range 100 {
		if port := freshPort(); network == "tcp" {
			dialer.LocalAddr = &net.TCPAddr{IP: local.AsSlice(), Port: port}
		} else {
			dialer.LocalAddr = &net.UDPAddr{IP: local.AsSlice(), Port: port}
		}
		if conn, err = dialer.Dial(network, addr); !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EADDRNOTAVAIL) {
			break
		}
	}
	return conn, err
}

// reuse has a socket take a port at which an earlier connection waits for its last segments.
func reuse(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	return errors.Join(failed, err)
}

var portsTaken atomic.Uint32

// freshPort is the next of those above proxy ports and node ports.
func freshPort() int {
	const first = 32768
	return first + int(portsTaken.Add(1)%(1<<16-first))
}

// Close hangs up.
func (c *Call) Close() { c.conn.Close() }

// Ask says a line and returns the answer.
func (c *Call) Ask() Reply {
	c.conn.SetDeadline(time.Now().Add(c.wait))
	if _, err := io.WriteString(c.conn, Answered+"\n"); err != nil {
		return Reply{Came: verdict(err)}
	}
	line, err := c.lines.ReadString('\n')
	if err != nil {
		return Reply{Came: verdict(err)}
	}
	var name, saw string
	if n, _ := fmt.Sscan(line, &name, &saw); n < 2 {
		return Reply{Came: name}
	}
	addr, err := netip.ParseAddr(saw)
	if err != nil {
		return Reply{Came: err.Error()}
	}
	return Reply{Answered, name, addr}
}

// Asks asks n times, a call each, or up to the first silence, which takes its time.
func Asks(from *netnstest.Namespace, network, addr string, local netip.Addr, n int, wait time.Duration) []Reply {
	var out []Reply
	from.Do(func() error {
		for range n {
			r := askOnce(network, addr, local, wait)
			if out = append(out, r); r.Came == Silence {
				break
			}
		}
		return nil
	})
	return out
}

func askOnce(network, addr string, local netip.Addr, wait time.Duration) Reply {
	c, err := dial(network, addr, local, wait)
	if err != nil {
		return Reply{Came: verdict(err)}
	}
	defer c.Close()
	return c.Ask()
}
