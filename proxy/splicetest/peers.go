package splicetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"time"
)

// peersVariable is set in the environment of a process that is a scenario's clients and endpoint.
const peersVariable = "SPLICETEST_PEERS"

// peers is that process, as its parent sees it.
type peers struct {
	t      *trial
	server netip.AddrPort
	in     io.WriteCloser
	out    *bufio.Scanner
}

func startPeers(t *trial) *peers {
	t.Helper()
	self, err := os.Executable()
	t.must(err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), peersVariable+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	t.must(err)
	out, err := cmd.StdoutPipe()
	t.must(err)
	t.must(cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	p := &peers{t: t, in: in, out: bufio.NewScanner(out)}
	p.server = netip.MustParseAddrPort(p.next())
	return p
}

// next returns the next line that the process says.
func (p *peers) next() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the process of clients has ended: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *peers) expect(line string) {
	p.t.Helper()
	if got := p.next(); got != line {
		p.t.Fatalf("the process of clients says %q, want %q", got, line)
	}
}

// bePeers is the process: an endpoint that sends back what it receives, and as many clients as it is told to be, which
// exchange one byte when they have connected and another when they are told to. It ends when its input does.
func bePeers() error {
	ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return err
	}
	go accept(ln, echoBytes)
	fmt.Println(ln.Addr())
	var to string
	var n int
	if _, err := fmt.Scanln(&to, &n); err != nil {
		return err
	}
	clients := make([]net.Conn, n)
	err = eachAtOnce(n, func(i int) (err error) {
		if clients[i], err = net.Dial("tcp", to); err != nil {
			return err
		}
		return exchanged(clients[i])
	})
	if err != nil {
		return err
	}
	fmt.Println("held")
	fmt.Scanln()
	if err := eachAtOnce(n, func(i int) error { return exchanged(clients[i]) }); err != nil {
		return err
	}
	fmt.Println("exchanged")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// echoBytes is echo for many connections: it takes no pipes.
func echoBytes(c *net.TCPConn) {
	buf := make([]byte, 1)
	for {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		c.Write(buf)
	}
}

// exchanged sends a byte and waits for it to come back.
func exchanged(c net.Conn) error {
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// eachAtOnce calls do for 0 to n-1, some at a time, and returns the first error.
func eachAtOnce(n int, do func(i int) error) (first error) {
	const workers = 50
	var wg sync.WaitGroup
	var once sync.Once
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if err := do(i); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return first
}
