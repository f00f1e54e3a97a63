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

// AnswerTimeout is the time limit of a client's request that is to be answered. It is longer than the four connect
// attempts of one dial on a busy machine.
var AnswerTimeout = VMTimeout(20 * time.Second)

// SilenceTimeout is after which a request counts as unanswered: one that nobody is to answer, or that is repeated.
var SilenceTimeout = VMTimeout(400 * time.Millisecond)

// Answer names the pod that served a client, and gives the client's own address.
type Answer struct {
	Pod    string
	Client netip.AddrPort
}

// Ask sends one request to an address and returns the pod that answered. Each call uses a new connection or, over UDP,
// a new source port.
func Ask(from *topology.Host, network, to string) (Answer, error) {
	return AskWithin(AnswerTimeout, from, network, to)
}

// AskWithin is Ask with a time limit of the caller's choice.
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

// Dial connects from a source port that no client used recently; reads and writes get the same time limit. A reused
// UDP source port would hit an existing session. With a reused TCP source port towards another address of the same
// Service, the kernel would translate the port, and the record would show the translated one.
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

// reuse sets SO_REUSEADDR: the socket can bind to a port that an earlier connection holds in TIME_WAIT.
func reuse(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	return errors.Join(failed, err)
}

// ports counts the source ports that FreshPort has given out.
var ports struct{ tcp, udp atomic.Uint32 }

// FreshPort returns the next source port, above all proxy ports. UDP ports lie outside the kernel's ephemeral range;
// TCP ports lie inside it, because that range is larger.
func FreshPort(network string) net.Addr {
	const firstTCP, firstUDP, end = 32768, 61000, 1 << 16
	if network == "udp" {
		return &net.UDPAddr{Port: firstUDP + int(ports.udp.Add(1)%(end-firstUDP))}
	}
	return &net.TCPAddr{Port: firstTCP + int(ports.tcp.Add(1)%(firstUDP-firstTCP))}
}

// AskTCP reads the pod's name and closes the connection gracefully, with a FIN in each direction.
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

// AskUDP asks over a connected socket, which receives only replies from its peer address. If a rule rejects a datagram
// of the node itself, the write fails with EPERM and an ICMP error follows: AskUDP reports the latter.
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

// LocalAddr is the local address of a connection; an IPv4-mapped address is returned as IPv4.
func LocalAddr(c net.Conn) netip.AddrPort {
	a := netip.MustParseAddrPort(c.LocalAddr().String())
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// HostPort joins an IP address and a port.
func HostPort(addr string, port int) string {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port)).String()
}

// Tally sends n requests, atOnce of them concurrently, and counts the answers of each pod. A failure ends the test.
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

// ServedBy waits until the pod answers at port 80 of an address; "" waits until no pod answers.
func (b *Bed) ServedBy(ip, pod string) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%s to be served by %q", ip, pod), func() bool {
		a, _ := AskWithin(SilenceTimeout, b.Client, "tcp", HostPort(ip, 80))
		return a.Pod == pod
	})
}

// Served tells whether cart's cluster IPs answer over TCP and UDP, in both families.
func (b *Bed) Served() bool {
	for _, addr := range []string{IP4, IP6} {
		for _, network := range []string{"tcp", "udp"} {
			if a, err := AskWithin(SilenceTimeout, b.Client, network, HostPort(addr, 80)); err != nil || a.Pod == "" {
				return false
			}
		}
	}
	return true
}

// Frontends lists the addresses at which each host can reach cart.
func (b *Bed) Frontends() map[*topology.Host][]string {
	all := []string{HostPort(IP4, 80), HostPort(IP6, 80), HostPort(b.Node.IPv4.String(), NodePort),
		HostPort(b.Node.IPv6.String(), NodePort)}
	return map[*topology.Host][]string{
		b.Client: all, b.Net.Pod(0): all,
		b.Node: append([]string{HostPort("127.0.0.1", NodePort), HostPort("::1", NodePort)}, all...),
	}
}
