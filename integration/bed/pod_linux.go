package bed

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/portald/portald/integration/topology"
)

// PodPort is the port at which the pods serve TCP and UDP.
const PodPort = 8080

// Server is a TCP server on a host.
type Server struct {
	listener net.Listener
	wg       sync.WaitGroup
	Mu       sync.Mutex
	Conns    []net.Conn
}

// Serve accepts connections at a port of the host, in both families, until the test ends, and calls handle for each.
func (b *Bed) Serve(h *topology.Host, port int, handle func(*net.TCPConn)) *Server {
	b.Helper()
	return b.ServeAt(h, fmt.Sprintf("[::]:%d", port), handle)
}

// ServeAt is Serve for one address.
func (b *Bed) ServeAt(h *topology.Host, address string, handle func(*net.TCPConn)) *Server {
	b.Helper()
	l, err := h.Listen("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	s := &Server{listener: l}
	s.wg.Go(func() { s.accept(handle) })
	b.Cleanup(s.Stop)
	return s
}

func (s *Server) accept(handle func(*net.TCPConn)) {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.Mu.Lock()
		s.Conns = append(s.Conns, c)
		s.Mu.Unlock()
		s.wg.Go(func() {
			handle(c.(*net.TCPConn))
			c.Close()
			s.Mu.Lock()
			s.Conns = slices.DeleteFunc(s.Conns, func(o net.Conn) bool { return o == c })
			s.Mu.Unlock()
		})
	}
}

// Stop closes the listener and its connections. From then on the port refuses connections.
func (s *Server) Stop() {
	s.listener.Close()
	s.Mu.Lock()
	for _, c := range s.Conns {
		c.Close()
	}
	s.Mu.Unlock()
	s.wg.Wait()
}

// NamesItself is a connection handler that sends a name, then echoes all input until the client closes its direction.
func NamesItself(name string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if _, err := io.WriteString(c, name+"\n"); err == nil {
			_, _ = io.Copy(c, c) // the client checks the echo
		}
	}
}

// WhoAreYou is the datagram that a pod answers with its name. A pod echoes all other datagrams.
const WhoAreYou = "who are you?"

// ServeUDP answers datagrams at a port of the host until the test ends.
func (b *Bed) ServeUDP(h *topology.Host, port int, name string) (stop func()) {
	b.Helper()
	return b.ServeUDPAt(h, fmt.Sprintf("[::]:%d", port), name)
}

// ServeUDPAt is ServeUDP for one address.
func (b *Bed) ServeUDPAt(h *topology.Host, address, name string) (stop func()) {
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
			if bytes.Equal(answer, []byte(WhoAreYou)) {
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

// ServePods starts TCP and UDP servers at PodPort of the pods with these numbers.
func (b *Bed) ServePods(pods ...int) (stop []func()) {
	b.Helper()
	for _, i := range pods {
		tcp := b.Serve(b.Net.Pod(i), PodPort, NamesItself(PodName(i)))
		udp := b.ServeUDP(b.Net.Pod(i), PodPort, PodName(i))
		stop = append(stop, func() { tcp.Stop(); udp() })
	}
	return stop
}
