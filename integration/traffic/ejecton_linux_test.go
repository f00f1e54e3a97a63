package traffic

import (
	"io"
	"net"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/record"
)

// One of two pods crashes before it answers three connections, and refuses a dial then. That ejects it where
// closed-early counts, and not by default: the one dial that it refused is too few.
func TestEjectionOnACrash(t *testing.T) {
	for name, counts := range map[string]bool{"closed-early counts": true, "by default": false} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			cart := b.Simple("cart", bed.IP4, 0)
			cart.Pods = b.Endpoints(0, 1)
			if counts {
				cart.Annotations = []string{"portald.io/eject-on: closed-early"}
			}
			asked := make(chan struct{}, 100)
			begins := func(c *net.TCPConn) {
				if _, err := io.WriteString(c, bed.PodName(0)+"\n"); err != nil {
					return
				}
				if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
					asked <- struct{}{}
					_, _ = io.Copy(io.Discard, c)
				}
			}
			crashing := b.Serve(b.Net.Pod(0), bed.PodPort, begins)
			b.Serve(b.Net.Pod(1), bed.PodPort, bed.NamesItself(bed.PodName(1)))
			d := b.Start(cart)
			const each = 3 // as many as eject-after
			var open []*net.TCPConn
			for range 2 * each {
				c, _, a := b.Open(bed.HostPort(bed.IP4, 80))
				if a.Pod == bed.PodName(0) {
					_, err := c.Write([]byte("?"))
					b.Must(err)
					<-asked
					open = append(open, c)
				}
			}
			crashing.Stop()
			for range 2 { // one of them dials the pod that has crashed first
				a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
				if b.Must(err); a.Pod != bed.PodName(1) {
					t.Errorf("%s answers", a.Pod)
				}
			}
			for _, c := range open {
				c.Close()
			}
			ejecting := 0
			early := func() (n int) {
				ejecting = 0
				for _, r := range d.Records() {
					if r.Outcome == string(record.OutcomeClosedEarly) {
						if n++; r.Attempts[0].Ejection != "" {
							ejecting++
						}
					}
				}
				return n
			}
			b.Eventually("connections were closed early", func() bool { return early() == each })
			want := map[bool]int{true: 1}[counts]
			if n := d.Metric("portald_endpoints_ejected"); ejecting != want || int(n) != want {
				t.Errorf("%d connections ejected the pod, %v endpoints are ejected, want %d", ejecting, n, want)
			}
		})
	}
}
