package splicetest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
)

// podEcho runs a server in the pod.
func (c *cluster) podEcho(family inet.Family) netip.AddrPort {
	c.Helper()
	at := netip.AddrPortFrom(podAddrs[family], 8080)
	c.pod.Must(func() error { return c.listen(at, echo) })
	return at
}

// short makes connections one after the other that their client closes first, and waits for each to have ended.
func (c *cluster) short(from *netnstest.Namespace, to netip.AddrPort, times int) error {
	return from.Do(func() error {
		for i := range times {
			if err := shortConnection(to); err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
		}
		return nil
	})
}

func shortConnection(to netip.AddrPort) error {
	c, err := echoed(to)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.ReadAll(c)
	return err
}

// echoed dials an echo server and leaves the connection open.
func echoed(to netip.AddrPort) (net.Conn, error) {
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(10 * time.Second)) // the one for which there is no port waits until then
	_, err = c.Write([]byte("x"))
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Now().Add(longest))
	return c, nil
}

// open makes connections from the client that stay, up to so many, and returns how many there are.
func (c *cluster) open(to netip.AddrPort, most int) (n int) {
	c.client.Do(func() error {
		for ; n < most; n++ {
			conn, err := echoed(to)
			if err != nil {
				return err
			}
			c.Cleanup(func() { conn.Close() })
		}
		return nil
	})
	return n
}
