package portaltest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// Reply is what came of a question.
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

// Dial opens a call from an address of the namespace, or from any if that is the zero address. What takes longer than
// wait is silence.
func Dial(from *Namespace, network, addr string, local netip.Addr, wait time.Duration) (*Call, error) {
	var c *Call
	err := from.Do(func() error {
		var err error
		c, err = dial(network, addr, local, wait)
		return err
	})
	return c, err
}

func dial(network, addr string, local netip.Addr, wait time.Duration) (*Call, error) {
	dialer := net.Dialer{Timeout: wait}
	switch {
	case local.IsValid() && network == "tcp":
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	case local.IsValid():
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	conn, err := dialer.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	return &Call{conn, bufio.NewReader(conn), wait}, nil
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
func Asks(from *Namespace, network, addr string, local netip.Addr, n int, wait time.Duration) []Reply {
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
