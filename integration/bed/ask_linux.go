package bed

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

// AnswerTimeout is how long a client waits for an answer: longer than all four attempts of a dial.
var AnswerTimeout = VMTimeout(6 * time.Second)

// Answer is who served a client, and the client's own address.
type Answer struct {
	Pod    string
	Client netip.AddrPort
}

// Ask asks at an address which pod serves there, by a connection of its own or a datagram from a port of its own.
func Ask(from *topology.Host, network, to string) (Answer, error) {
	return AskWithin(AnswerTimeout, from, network, to)
}

func AskWithin(limit time.Duration, from *topology.Host, network, to string) (Answer, error) {
	c, err := Dial(limit, from, network, to)
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	if network == "udp" {
		return AskUDP(c)
	}
	return AskTCP(c.(*net.TCPConn))
}

// Dial connects from a port that no client had lately, and gives what follows the same time limit. A UDP client that
// had it would meet its session; one of TCP that dialled another address of the same Service would have another port
// in its record, for the kernel gives it one.
func Dial(limit time.Duration, from *topology.Host, network, to string) (c net.Conn, err error) {
	d := net.Dialer{Timeout: limit, Control: reuse}
	err = from.Do(func() error {
		for range 100 {
			d.LocalAddr = FreshPort(network)
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

// FreshPort is the next above all proxy ports: of UDP those that the kernel does not hand out, of TCP the many that
// it does.
func FreshPort(network string) net.Addr {
	const firstTCP, firstUDP, end = 32768, 61000, 1 << 16
	if network == "udp" {
		return &net.UDPAddr{Port: firstUDP + int(ports.udp.Add(1)%(end-firstUDP))}
	}
	return &net.TCPAddr{Port: firstTCP + int(ports.tcp.Add(1)%(firstUDP-firstTCP))}
}

// AskTCP reads the pod's name and ends the connection in order.
func AskTCP(c *net.TCPConn) (Answer, error) {
	a := Answer{Client: LocalAddr(c)}
	name, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return a, fmt.Errorf("read the pod's name: %w", err)
	}
	a.Pod = strings.TrimSpace(name)
	if err := c.CloseWrite(); err != nil {
		return a, err
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		return a, fmt.Errorf("after the pod's name: %q, %w", rest, err)
	}
	return a, nil
}

// AskUDP asks over a connected socket, which hears only replies from the address it wrote to. A datagram of the node's
// own that a rule refuses is refused twice: the write is not permitted, and then comes the answer from the network.
func AskUDP(c net.Conn) (Answer, error) {
	a := Answer{Client: LocalAddr(c)}
	if _, err := io.WriteString(c, WhoAreYou); err != nil && !errors.Is(err, syscall.EPERM) {
		return a, err
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	if err != nil {
		return a, fmt.Errorf("read the pod's name: %w", err)
	}
	a.Pod = string(buf[:n])
	return a, nil
}

func LocalAddr(c net.Conn) netip.AddrPort {
	a := netip.MustParseAddrPort(c.LocalAddr().String())
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// HostPort is an address of digits and a port.
func HostPort(addr string, port int) string {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port)).String()
}

// Tally asks n times, in groups that ask at once, and counts who answered. The first failure ends the test.
func (b *Bed) Tally(n, atOnce int, from *topology.Host, network, to string) map[string]int {
	b.Helper()
	count := map[string]int{}
	for range n / atOnce {
		type result struct {
			Answer
			err error
		}
		results := make(chan result, atOnce)
		for range atOnce {
			go func() {
				a, err := Ask(from, network, to)
				results <- result{a, err}
			}()
		}
		var failed error
		for range atOnce {
			r := <-results
			if r.err != nil {
				failed = r.err
			}
			count[r.Pod]++
		}
		if failed != nil {
			b.Fatalf("ask %s %s from %s: %v", network, to, from.Name, failed)
		}
	}
	return count
}

// ServedBy waits until an address is served by a pod, "" for by nobody.
func (b *Bed) ServedBy(ip, pod string) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%s to be served by %q", ip, pod), func() bool {
		a, _ := AskWithin(AnswerTimeout/10, b.Client, "tcp", HostPort(ip, 80))
		return a.Pod == pod
	})
}

func (b *Bed) Served() bool {
	for _, addr := range []string{IP4, IP6} {
		for _, network := range []string{"tcp", "udp"} {
			if a, err := AskWithin(AnswerTimeout/10, b.Client, network, HostPort(addr, 80)); err != nil || a.Pod == "" {
				return false
			}
		}
	}
	return true
}

// Places are the addresses of cart, by who asks there.
func (b *Bed) Places() map[*topology.Host][]string {
	all := []string{HostPort(IP4, 80), HostPort(IP6, 80), HostPort(b.Node.IPv4.String(), NodePort),
		HostPort(b.Node.IPv6.String(), NodePort)}
	return map[*topology.Host][]string{
		b.Client: all, b.Net.Pod(0): all,
		b.Node: append([]string{HostPort("127.0.0.1", NodePort), HostPort("::1", NodePort)}, all...),
	}
}
