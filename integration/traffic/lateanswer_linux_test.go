package traffic

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// An answer that comes long after the kernel would have forgotten the flow reaches the client of a session that lives:
// the first one and a later one, at each kind of address, by either engine, and after a take-over.
func TestLateAnswersOverUDP(t *testing.T) {
	bed.NeedsLinux(t, "conntrack is of Linux")
	for _, engine := range []string{"epoll", "goroutine"} {
		t.Run(engine, func(t *testing.T) {
			b := bed.New(t)
			b.Must(b.Node.Sysctl("netfilter/nf_conntrack_udp_timeout", "4"))
			b.Must(b.Node.Sysctl("netfilter/nf_conntrack_udp_timeout_stream", "4"))
			served, err := b.Net.Pod(0).ListenPacket("udp", fmt.Sprintf("[::]:%d", bed.PodPort))
			b.Must(err)
			const late = 8 * time.Second
			var serving sync.WaitGroup
			serving.Go(func() {
				buf := make([]byte, 100)
				for {
					n, from, err := served.ReadFrom(buf)
					if err != nil {
						return
					}
					answer := append([]byte(nil), buf[:n]...)
					time.AfterFunc(late, func() { _, _ = served.WriteTo(answer, from) })
				}
			})
			t.Cleanup(func() { served.Close(); serving.Wait() })
			cart := b.Cart(0)
			cart.Annotations = []string{"portald.io/udp-timeout: 30s"}
			d := b.Start(cart, "--engine="+engine)

			var clients sync.WaitGroup
			for _, to := range b.Frontends()[b.Client] {
				clients.Go(func() {
					c, err := bed.Dial(bed.LongestTest, b.Client, "udp", to)
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					for i := range 2 {
						if err := asks(c, fmt.Sprint("question ", i), 2*late); err != nil {
							t.Errorf("%s, answer %d: %v", to, i, err)
						}
					}
				})
			}
			if engine == "epoll" {
				time.Sleep(late + late/2) // in the midst of the second
				d = d.Succeed()
				d.WaitReady()
			}
			clients.Wait()
		})
	}
}

// asks sends a datagram, and wants it back within that time.
func asks(c net.Conn, payload string, within time.Duration) error {
	if _, err := c.Write([]byte(payload)); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	if err == nil && string(buf[:n]) != payload {
		err = fmt.Errorf("answered by %q", buf[:n])
	}
	return err
}
