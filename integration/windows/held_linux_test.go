package windows

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// Thousands of connections are held at once: all are answered, all are alive after a while, none takes more memory than
// an idle one should, and nothing is left of them in the end.
func TestManyConnectionsHeld(t *testing.T) {
	const connections, mostBytes = 5000, 40e3
	needDescriptors(t, 2*connections+1000) // of this process, and of the wineserver
	b := bed.New(t)
	for pod := range 3 {
		b.Serve(b.Net.Pod(pod), bed.PodPort, echo(bed.PodName(pod)))
	}
	d := b.Start(b.Cart(0, 1, 2))
	b.ServedBy(bed.IP4, "pod0")
	bytes, before := d.Metric("process_resident_memory_bytes"), descriptors(b)

	conns := openConns(b, bed.HostPort(bed.IP4, 80), connections)
	b.Eventually("all connections to be counted", func() bool {
		return d.Metric(`portald_connections_active{protocol="tcp",service="shop/cart:http"}`) == connections
	})
	each := (d.Metric("process_resident_memory_bytes") - bytes) / connections
	t.Logf("%d connections: %.1f kB of portald.exe and %.2f descriptors of Wine each", connections, each/1e3,
		float64(descriptors(b)-before)/connections)
	if bytes == 0 || each > mostBytes {
		t.Errorf("a connection takes %.1f kB, want at most %.1f, from %g bytes on", each/1e3, mostBytes/1e3, bytes)
	}
	echoEach(t, conns)
	for _, c := range conns {
		c.Close()
	}
	const threads = connections / 10 // those of the program have some each, and stay
	if !bed.Within(bed.Patience, func() bool { return descriptors(b) < before+threads }) {
		t.Errorf("%d descriptors before, %d after", before, descriptors(b))
	}
}

// descriptors counts what the node's system has open. Wine tells programs of no handle.
func descriptors(b *bed.Bed) (n int) {
	b.Helper()
	pids, err := b.Windows.Prefix.Processes()
	b.Must(err)
	for _, pid := range pids {
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // none of a process that has ended
		n += len(open)
	}
	return n
}

func needDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Max < n {
		topology.Lack(t, "needs a hard limit of %d descriptors, has %d", n, l.Max)
	}
}

// echo is bed.NamesItself without the pipe that a copy between sockets takes: two descriptors more a connection.
func echo(name string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if _, err := io.WriteString(c, name+"\n"); err == nil {
			_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, make([]byte, 64)) // the client checks
		}
	}
}

// openers is the number of connections that are opened at a time.
const openers = 8

// openConns opens n connections, each answered by a pod, until the end of the test.
func openConns(b *bed.Bed, to string, n int) []net.Conn {
	b.Helper()
	conns := make([]net.Conn, n)
	b.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	})
	var wg sync.WaitGroup
	for first := range openers {
		wg.Go(func() {
			err := b.Client.Do(func() (err error) {
				for i := first; i < n && err == nil; i += openers {
					conns[i], err = open(to)
				}
				return err
			})
			if err != nil {
				b.Errorf("open %d connections: %v", n, err)
			}
		})
	}
	if wg.Wait(); b.Failed() {
		b.FailNow()
	}
	return conns
}

// open connects and reads the pod's name.
func open(to string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", to, bed.AnswerTimeout)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return c, err
	}
	_, err = bufio.NewReader(c).ReadString('\n')
	return c, err
}

// echoEach has each connection's pod send a byte back.
func echoEach(t *testing.T, conns []net.Conn) {
	t.Helper()
	for _, c := range conns {
		if _, err := c.Write([]byte{'?'}); err != nil {
			t.Errorf("write: %v", err)
			return
		}
	}
	for i, c := range conns {
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Errorf("connection %d of %d does not echo: %v", i, len(conns), err)
			return
		}
	}
}
