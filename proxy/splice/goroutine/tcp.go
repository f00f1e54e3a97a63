package goroutine

import (
	"context"
	"net"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// dialTCP makes the attempt of a step.
func (e *shared) dialTCP(ctx context.Context, s splice.Step) (*net.TCPConn, error) {
	d := net.Dialer{KeepAliveConfig: keepalive(), Control: e.dialControl(inet.TCP, s.As)}
	d.SetMultipathTCP(false)
	socket, err := d.DialContext(ctx, network("tcp", s.Endpoint.Addr()), s.Endpoint.String())
	if err != nil {
		return nil, err
	}
	return socket.(*net.TCPConn), nil
}

// keepalive is set on both sockets.
func keepalive() net.KeepAliveConfig { return keepaliveConfig(splice.DefaultKeepalive()) }

func keepaliveConfig(k splice.Keepalive) net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: k.Idle, Interval: k.Interval, Count: k.Count}
}

// guard has the death of this process reset a connection, whose peer else would see a FIN: the end of a stream that has
// not ended.
func guard(socket *net.TCPConn) { _ = socket.SetLinger(0) } // fails if it is broken

// unguard ends that. A socket that is closed by a FIN must not be guarded.
func unguard(socket *net.TCPConn) { _ = socket.SetLinger(-1) }

// closeWrite closes a socket for writing: its peer sees a FIN, and the kernel sends the bytes before that, whoever
// dies.
func closeWrite(socket *net.TCPConn) {
	unguard(socket)
	_ = socket.CloseWrite() // broken: its own direction says so
}

// reset closes a socket so that its peer sees a reset.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

// network returns the network name of package net for a protocol and the family of an address.
func network(protocol string, addr netip.Addr) string {
	if addr.Is4() {
		return protocol + "4"
	}
	return protocol + "6"
}

// addrOf converts an address of package net; IPv4-mapped addresses become IPv4.
func addrOf(a net.Addr) netip.AddrPort {
	var at netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		at = a.AddrPort()
	case *net.UDPAddr:
		at = a.AddrPort()
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
