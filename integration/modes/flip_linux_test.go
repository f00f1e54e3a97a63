package modes

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

// flipOf is what would change if a Service had a mode.
func flipOf(d *bed.Daemon, what, to string) explained {
	d.Helper()
	r, err := d.Admin().Flip(d.Context(), what, to)
	d.Must(err)
	return explained{d, &r}
}

// What portald says of another mode is what happens in it: to the address that a pod sees, to the PROXY header, to open
// connections and to annotations. It changes nothing, and says so of the mode that is.
func TestFlipIsForetold(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		args := m.Args
		if !m.Kernel {
			args = append([]string{bed.PodRanges}, args...)
		}
		b.ServePods(0)
		b.Serve(b.Net.Pod(1), bed.PodPort, func(c *net.TCPConn) {
			fmt.Fprintln(c, netip.MustParseAddrPort(c.RemoteAddr().String()).Addr().Unmap())
			_, _ = io.Copy(c, c)
		})
		cart := b.Cart(1)
		cart.Annotations = annotations("retries: 2")
		d := b.Start(cart, args...)
		now, then := "userspace", "kernel"
		if m.Kernel {
			now, then = then, now
		}
		// asPod connects as a pod, and returns whether the endpoint sees the pod's address.
		asPod := func() bool {
			c, err := bed.Dial(bed.AnswerTimeout, b.Net.Pod(0), "tcp", bed.HostPort(bed.IP4, 80))
			b.Must(err)
			defer c.Close()
			seen, err := bufio.NewReader(c).ReadString('\n')
			b.Must(err)
			return strings.TrimSpace(seen) == b.Net.Pod(0).IPv4.String()
		}
		own := map[string]string{"kernel": "the client's own address", "userspace": "this node's address"}
		for range 2 { // there, and back
			if asPod() != (now == "kernel") {
				t.Errorf("in mode %s the endpoint sees the pod: %t", now, now == "userspace")
			}
			open := converse(b, bed.HostPort(bed.IP4, 80))
			b.Eventually("the connections before it to have ended", func() bool {
				return strings.Contains(linesOf(flipOf(d, "shop/cart:http", then)), "open now: 1 connection\n")
			})
			flipOf(d, "shop/cart:http", now).verdict(explain.Good, "in mode "+now+" already: nothing would change")
			e := flipOf(d, "shop/cart:http", then)
			e.verdict(explain.Doubt, "As "+then+", shop/cart:http would lose or change something: source address")
			e.has("Source address", "pods, by ClusterIP: endpoints see "+own[then]+", now "+own[now])
			e.has("Annotations", map[string]string{
				"kernel": "portald.io/retries: 2 stops counting", "userspace": "portald.io/retries: 2 starts to count",
			}[then])
			e.has("Open connections", map[string]string{"kernel": "go on by portald", "userspace": "go on by the kernel"}[then])
			if asPod() != (now == "kernel") {
				t.Error("the question has changed the mode")
			}
			cart.Mode = then
			d.Apply(cart)
			if asPod() != (then == "kernel") {
				t.Errorf("foretold that in mode %s endpoints see %s", then, own[then])
			}
			open.goesOn(b)
			b.Must(open.Close())
			now, then = then, now
			b.Eventually("the connection to have ended", func() bool {
				return strings.Contains(linesOf(flipOf(d, "shop/cart:http", then)), "none is open now")
			})
		}
	})
}

func linesOf(e explained) (all string) {
	for _, s := range e.Sections {
		for _, l := range s.Lines {
			all += l.Text + "\n"
		}
	}
	return all
}

// A header that ends with the mode is foretold, and is told when it has ended. The command prints it all.
func TestPROXYHeaderEndsLoudly(t *testing.T) {
	b := bed.New(t)
	starts := make(chan byte, 8)
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
		var first [1]byte
		if _, err := c.Read(first[:]); err == nil {
			starts <- first[0]
		}
		_, _ = io.Copy(io.Discard, c)
	})
	cart := b.Cart(0)
	cart.Annotations = annotations("client-address: proxy-v2")
	d := b.Start(cart)
	says := func() byte {
		c, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
		defer c.Close()
		_, err = c.Write([]byte(bed.WhoAreYou))
		b.Must(err)
		return <-starts
	}
	const headers = '\r'
	if first := says(); first != headers {
		t.Fatalf("no header, but %q", first)
	}
	line := b.Line("explain", "shop/cart:http", "--as", "kernel", "--socket", d.Socket)
	text := b.On(b.Node, line[0], line[1:]...)
	for _, part := range []string{"shop/cart:http as kernel on here\n", "endpoints get no PROXY protocol header any more",
		"portald.io/client-address: proxy-v2 stops counting", "its other ports change too (talk)",
		"Next: kubectl annotate service -n shop cart portald.io/mode=kernel --overwrite"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if _, err := d.Admin().Flip(b.Context(), "pod/shop/pod0", "kernel"); err == nil ||
		!strings.Contains(err.Error(), "a mode is a Service's") {
		t.Errorf("a pod has a mode: %v", err)
	}
	cart.Mode = "kernel"
	d.Apply(cart)
	if first := says(); first == headers {
		t.Error("the kernel sends a header")
	}
	const warning = "has no effect where the kernel carries the Service: endpoints get no PROXY protocol header"
	if n := strings.Count(d.Log.String(), warning); n != 1 {
		t.Errorf("it is told %d times in\n%s", n, d.Log.String())
	}
	explainOf(d, "shop/cart:http", "").verdict(explain.Doubt, "endpoints get no PROXY protocol header")
}
