package splicetest

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
)

const (
	loopback  = "127.0.0.1"
	loopback6 = "::1"
)

// ports gives each caller another port, below those that systems choose for themselves.
type ports struct {
	begin uint32
	given atomic.Uint32
}

const firstPort, portCount = 21000, 8000

// newPorts begins anywhere: other processes may run the suite at the same time.
func newPorts() *ports { return &ports{begin: rand.Uint32N(portCount)} }

func (p *ports) next() uint16 { return uint16(firstPort + (p.begin+p.given.Add(1))%portCount) }

// refusing is an address of this host without a server, in a part of the IPv4 loopback network that only this process
// uses.
func (t *trial) refusing() netip.AddrPort {
	pid := os.Getpid()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 64, byte(pid >> 8), byte(pid)}), t.ports.next())
}

// refusingOf is an address without a server in the family of a loopback address. All processes share the one of IPv6:
// it is the address of a connection there, so that nobody listens at it for as long as the trial lasts.
func (t *trial) refusingOf(host string) netip.AddrPort {
	if host == loopback {
		return t.refusing()
	}
	server, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	t.must(err)
	t.Cleanup(func() { server.Close() })
	// Bound before it connects: otherwise the kernel may give the port to others that dial, even to itself.
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	client, err := from.Dial("tcp", server.Addr().String())
	t.must(err)
	t.Cleanup(func() { client.Close() })
	return addrOf(client.LocalAddr())
}

func addrOf(a net.Addr) netip.AddrPort {
	at, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// Winsock's numbers of errors that other systems have in package syscall.
const (
	winAddrInUse         = syscall.Errno(10048)
	winConnectionReset   = syscall.Errno(10054)
	winConnectionRefused = syscall.Errno(10061)
)

func isInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, winAddrInUse)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, winConnectionReset)
}

func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, winConnectionRefused)
}
