package bed

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// LongestTest is how long a test may use a connection: most restart portald several times.
var LongestTest = 5 * Patience

// Open connects to a frontend of cart and returns the connection once the pod has sent its name.
func (b *Bed) Open(to string) (*net.TCPConn, *bufio.Reader, Answer) {
	b.Helper()
	c, err := Dial(Patience, b.Client, "tcp", to)
	if err != nil {
		b.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(LongestTest))
	b.Cleanup(func() { c.Close() })
	r := bufio.NewReader(c)
	name, err := r.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return c.(*net.TCPConn), r, Answer{name[:len(name)-1], LocalAddr(c)}
}

// Echoes sends a text over a connection and returns an error unless the same text comes back.
func Echoes(c net.Conn, r io.Reader) error {
	const text = "are you still there?"
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(r, buf); err != nil {
		return err
	}
	if string(buf) != text {
		return errors.New("other bytes came back")
	}
	return nil
}

// Unacknowledged is how many bytes the peer of a socket did not acknowledge.
func Unacknowledged(c *net.TCPConn) (n int) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
	return n
}

// Load opens connections from six concurrent clients until stop is called. Stop returns the number of answers of each
// pod, and the errors.
func (b *Bed) Load(to string) (stop func() (map[string]int, []error)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	count, failed := map[string]int{}, []error(nil)
	for range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				a, err := Ask(b.Client, "tcp", to)
				mu.Lock()
				if count[a.Pod]++; err != nil {
					failed = append(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	return func() (map[string]int, []error) {
		cancel()
		wg.Wait()
		return count, failed
	}
}

// Refuse makes a pod reject new connections and keep the open ones, as a pod that terminates.
func (b *Bed) Refuse(pod int) {
	b.Helper()
	for _, command := range []string{"iptables", "ip6tables"} {
		b.On(b.Net.Pod(pod), command, "-I", "INPUT", "-p", "tcp", "--syn", "-j", "REJECT", "--reject-with", "tcp-reset")
	}
}
