package traffic

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// endings lists the ways in which connections of TestNothingLeaks end.
var endings = []func(to func(port int) string) error{
	func(to func(int) string) error { // closed by FIN
		c, err := net.Dial("tcp", to(80))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = bed.AskTCP(c.(*net.TCPConn))
		return err
	},
	func(to func(int) string) error { // reset by the client
		c, err := net.Dial("tcp", to(80))
		if err != nil {
			return err
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		return c.Close()
	},
	func(to func(int) string) error { // reset by the endpoint
		c, err := net.Dial("tcp", to(81))
		if err != nil {
			return err
		}
		_, _ = io.WriteString(c, "x")
		_, _ = io.ReadAll(c)
		return c.Close()
	},
	func(to func(int) string) error { // refused by the endpoint
		c, err := net.Dial("tcp", to(82))
		if err != nil {
			return nil // reset before connect returned
		}
		_, _ = io.ReadAll(c)
		return c.Close()
	},
	func(to func(int) string) error { // a datagram and its answer
		c, err := (&net.Dialer{LocalAddr: bed.FreshPort("udp")}).Dial("udp", to(80))
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(bed.AnswerTimeout))
		_, err = bed.AskUDP(c)
		return err
	},
}

// churn opens n connections, which end in all ways in turn.
func churn(b *bed.Bed, n int) {
	b.Helper()
	const workers = 4
	to := func(port int) string { return bed.HostPort(bed.IP4, port) }
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			err := b.Client.Do(func() error {
				for range n / workers / len(endings) {
					for _, end := range endings {
						if err := end(to); err != nil {
							return err
						}
					}
				}
				return nil
			})
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// systemMemory returns the bytes that the daemon has from the system.
func systemMemory(d *bed.Daemon) float64 {
	d.Helper()
	_, body, err := d.Get("127.0.0.1:10249", "/metrics")
	d.Must(err)
	return d.MemoryIn(body)
}

// After thousands of connections, the daemon holds no more descriptors, goroutines or memory than before.
func TestNothingLeaks(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Serve(b.Net.Pod(0), 9001, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)); _ = c.SetLinger(0) })
	cart := b.Cart(0)
	cart.Ports = append(cart.Ports, bed.NewPort("rude", "TCP", 81, 0, 9001), bed.NewPort("closed", "TCP", 82, 0, 9002))
	idleTime, timeout := "2s", "5ms" // a session must not end before a busy machine has brought the answer
	if bed.OnWindows {
		timeout = "1s" // Wine takes longer than that while several tests run
	}
	d := b.Start(cart, "--udp-timeout="+idleTime, "--connect-timeouts="+timeout, "--connection-log=")
	churn(b, 10_000) // warm up: pools, tables and the race detector reach their size
	idle := func() bool {
		return d.Metric(`portald_connections_active{protocol="tcp",service="shop/cart:http"}`) == 0 &&
			d.Metric(`portald_connections_active{protocol="udp",service="shop/cart:talk"}`) == 0
	}
	b.Eventually("the first ones to end", idle)
	descriptors, routines, memory := d.Metric("process_open_fds"), d.Metric("go_goroutines"), systemMemory(d)
	churn(b, 10_000)
	b.Eventually("all to end", idle)
	// The metrics request itself takes a descriptor and some goroutines, in both measurements.
	b.Eventually("descriptors to come back", func() bool { return d.Metric("process_open_fds") <= descriptors })
	b.Eventually("goroutines to come back", func() bool { return d.Metric("go_goroutines") <= routines })
	const slack = 24 << 20 // the garbage collector returns memory late
	if now := systemMemory(d); now > memory+slack {
		t.Errorf("memory grew from %.0f to %.0f bytes", memory, now)
	}
}
