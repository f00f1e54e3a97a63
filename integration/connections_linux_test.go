package integration

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// open connects to cart and returns the connection when the pod has said its name.
func (b *bed) open(to string) (*net.TCPConn, *bufio.Reader, answer) {
	b.Helper()
	c, err := dial(time.Minute, b.client, "tcp", to)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	r := bufio.NewReader(c)
	name, err := r.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return c.(*net.TCPConn), r, answer{name[:len(name)-1], localAddr(c)}
}

// echoes tells whether what goes in comes back.
func echoes(c net.Conn, r io.Reader) error {
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

// load connects again and again, a few at once, until the returned func is called, which returns who answered how
// often and what failed.
func (b *bed) load(to string) (stop func() (map[string]int, []error)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	count, failed := map[string]int{}, []error(nil)
	for range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				a, err := who(b.client, "tcp", to)
				mu.Lock()
				if count[a.pod]++; err != nil {
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

// refuse has a pod take no new connections, as one that is about to end, and finish those it has.
func (b *bed) refuse(pod int) {
	b.Helper()
	for _, command := range []string{"iptables", "ip6tables"} {
		b.on(b.net.Pod(pod), command, "-I", "INPUT", "-p", "tcp", "--syn", "-j", "REJECT", "--reject-with", "tcp-reset")
	}
}

// Pods come and go under load, slices first, as in a rollout: no connection fails and no rule is touched.
func TestEndpointsChangeUnderLoad(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1)
	d := b.start(b.cart(0, 1))
	before := b.rules()
	stop := b.load(at(ip4, 80))
	time.Sleep(200 * time.Millisecond)
	d.apply(b.cart(1))
	b.refuse(0)
	b.servePods(2)
	d.apply(b.cart(1, 2))
	time.Sleep(200 * time.Millisecond)
	b.refuse(1) // before anybody tells: it is tried past
	time.Sleep(200 * time.Millisecond)
	d.apply(b.cart(2))
	if b.rules() != before {
		t.Errorf("a change of endpoints touched rules: before\n%s\nafter\n%s", before, b.rules())
	}
	time.Sleep(100 * time.Millisecond)
	count, failed := stop()
	delete(count, "")
	if len(count) != 3 {
		t.Errorf("answered by %v, want all three", count)
	}
	if len(failed) > 0 {
		t.Errorf("%d connections failed, the first: %v; served: %v", len(failed), failed[0], count)
	}
}

func TestConnectionsOutliveServiceAndEndpoint(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1)
	d := b.start(b.cart(0))
	var still []*bufio.Reader
	var conns []*net.TCPConn
	var answers []answer
	for _, to := range []string{at(ip4, 80), at(ip6, 80), at(b.node.IPv4.String(), nodePort)} {
		c, r, a := b.open(to)
		conns, still, answers = append(conns, c), append(still, r), append(answers, a)
	}
	alive := func(when string) {
		t.Helper()
		for i, c := range conns {
			if err := echoes(c, still[i]); err != nil {
				t.Errorf("connection %d %s: %v", i, when, err)
			}
		}
	}
	alive("at first")
	d.apply(b.cart(1))
	alive("after its endpoint went")
	d.apply(b.cart())
	alive("after all endpoints went")
	d.apply(svc{name: "other", ips: []string{"10.96.9.9"}, ports: b.cart().ports[:1]})
	alive("after its Service went")
	for i, c := range conns {
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if r := d.recordOf(answers[i]); r.Outcome != "ok" || r.Pod != "shop/pod0" || r.Service != "shop/cart:http" || r.BytesFromClient == 0 {
			t.Errorf("recorded as %s", r)
		}
	}
}
