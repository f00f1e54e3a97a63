package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
)

// patience is how long a client waits for an answer: longer than all four attempts of a dial.
var patience = unhurried(6 * time.Second)

// answer is who served a client, and the client's own address.
type answer struct {
	pod    string
	client netip.AddrPort
}

// who asks at an address which pod serves there, by a connection of its own or a datagram from a port of its own.
func who(from *topology.Host, network, to string) (answer, error) {
	return whoWithin(patience, from, network, to)
}

func whoWithin(limit time.Duration, from *topology.Host, network, to string) (answer, error) {
	c, err := dial(limit, from, network, to)
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	if network == "udp" {
		return askUDP(c)
	}
	return askTCP(c.(*net.TCPConn))
}

// dial connects from a port that no client had lately, and gives what follows the same time limit. A UDP client that had
// it would meet its session; one of TCP that dialled another address of the same Service would have another port in its
// record, for the kernel gives it one.
func dial(limit time.Duration, from *topology.Host, network, to string) (c net.Conn, err error) {
	d := net.Dialer{Timeout: limit, Control: reuse}
	err = from.Do(func() error {
		for range 100 {
			d.LocalAddr = freshPort(network)
			if c, err = d.Dial(network, to); !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
				break
			}
		}
		if err != nil {
			return err
		}
		return c.SetDeadline(time.Now().Add(limit))
	})
	return c, err
}

// reuse has a socket take a port at which an earlier connection waits for its last segments.
func reuse(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	return errors.Join(failed, err)
}

// ports counts those of clients.
var ports struct{ tcp, udp atomic.Uint32 }

// freshPort is the next above all proxy ports: of UDP those that the kernel does not hand out, of TCP the many that it does.
func freshPort(network string) net.Addr {
	const firstTCP, firstUDP, end = 32768, 61000, 1 << 16
	if network == "udp" {
		return &net.UDPAddr{Port: firstUDP + int(ports.udp.Add(1)%(end-firstUDP))}
	}
	return &net.TCPAddr{Port: firstTCP + int(ports.tcp.Add(1)%(firstUDP-firstTCP))}
}

// askTCP reads the pod's name and ends the connection in order.
func askTCP(c *net.TCPConn) (answer, error) {
	a := answer{client: localAddr(c)}
	name, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return a, fmt.Errorf("read the pod's name: %w", err)
	}
	a.pod = strings.TrimSpace(name)
	if err := c.CloseWrite(); err != nil {
		return a, err
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		return a, fmt.Errorf("after the pod's name: %q, %w", rest, err)
	}
	return a, nil
}

// askUDP asks over a connected socket, which hears only replies from the address it wrote to. A datagram of the node's
// own that a rule refuses is refused twice: the write is not permitted, and then comes the answer from the network.
func askUDP(c net.Conn) (answer, error) {
	a := answer{client: localAddr(c)}
	if _, err := io.WriteString(c, whoAreYou); err != nil && !errors.Is(err, syscall.EPERM) {
		return a, err
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	if err != nil {
		return a, fmt.Errorf("read the pod's name: %w", err)
	}
	a.pod = string(buf[:n])
	return a, nil
}

func localAddr(c net.Conn) netip.AddrPort {
	a := netip.MustParseAddrPort(c.LocalAddr().String())
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// at is an address of digits and a port.
func at(addr string, port int) string {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port)).String()
}

// tally asks n times, in groups that ask at once, and counts who answered. The first failure ends the test.
func (b *bed) tally(n, atOnce int, from *topology.Host, network, to string) map[string]int {
	b.Helper()
	count := map[string]int{}
	for range n / atOnce {
		type result struct {
			answer
			err error
		}
		results := make(chan result, atOnce)
		for range atOnce {
			go func() {
				a, err := who(from, network, to)
				results <- result{a, err}
			}()
		}
		var failed error
		for range atOnce {
			r := <-results
			if r.err != nil {
				failed = r.err
			}
			count[r.pod]++
		}
		if failed != nil {
			b.Fatalf("ask %s %s from %s: %v", network, to, from.Name, failed)
		}
	}
	return count
}
