package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/portald/portald/integration/topology"
)

// podPort is where the pods serve, TCP and UDP.
const podPort = 8080

// server is something that serves TCP on a host.
type server struct {
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

// serve has handle carry each connection to a port of the host, in both families, until the test ends.
func (b *bed) serve(h *topology.Host, port int, handle func(*net.TCPConn)) *server {
	b.Helper()
	return b.serveAt(h, fmt.Sprintf("[::]:%d", port), handle)
}

// serveAt is serve for one address.
func (b *bed) serveAt(h *topology.Host, address string, handle func(*net.TCPConn)) *server {
	b.Helper()
	l, err := h.Listen("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	s := &server{listener: l}
	s.wg.Go(func() { s.accept(handle) })
	b.Cleanup(s.stop)
	return s
}

func (s *server) accept(handle func(*net.TCPConn)) {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		s.wg.Go(func() {
			handle(c.(*net.TCPConn))
			c.Close()
			s.mu.Lock()
			s.conns = slices.DeleteFunc(s.conns, func(o net.Conn) bool { return o == c })
			s.mu.Unlock()
		})
	}
}

// stop closes the listener and what it accepted. From then on the port refuses.
func (s *server) stop() {
	s.listener.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// namesItself says a name, echoes all that comes, and ends when the client does.
func namesItself(name string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if _, err := io.WriteString(c, name+"\n"); err == nil {
			_, _ = io.Copy(c, c) // the client judges what came back
		}
	}
}

// whoAreYou is what a pod answers with its name over UDP; anything else it echoes.
const whoAreYou = "who are you?"

// serveUDP answers datagrams to a port of the host until the test ends.
func (b *bed) serveUDP(h *topology.Host, port int, name string) (stop func()) {
	b.Helper()
	return b.serveUDPAt(h, fmt.Sprintf("[::]:%d", port), name)
}

// serveUDPAt is serveUDP for one address.
func (b *bed) serveUDPAt(h *topology.Host, address, name string) (stop func()) {
	b.Helper()
	c, err := h.ListenPacket("udp", address)
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			answer := buf[:n]
			if bytes.Equal(answer, []byte(whoAreYou)) {
				answer = []byte(name)
			}
			_, _ = c.WriteTo(answer, from)
		}
	})
	stop = func() {
		c.Close()
		wg.Wait()
	}
	b.Cleanup(stop)
	return stop
}

// servePods has the pods of these numbers serve TCP and UDP at podPort.
func (b *bed) servePods(pods ...int) (stop []func()) {
	b.Helper()
	for _, i := range pods {
		tcp := b.serve(b.net.Pod(i), podPort, namesItself(podName(i)))
		udp := b.serveUDP(b.net.Pod(i), podPort, podName(i))
		stop = append(stop, func() { tcp.stop(); udp() })
	}
	return stop
}
