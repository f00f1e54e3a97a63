package traffic

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// Pods come and go under load, as in a rollout: no connection fails and no rule changes.
func TestEndpointsChangeUnderLoad(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0, 1))
	before := b.Rules()
	stop := b.Load(bed.HostPort(bed.IP4, 80))
	time.Sleep(200 * time.Millisecond)
	d.Apply(b.Cart(1))
	b.Refuse(0)
	b.ServePods(2)
	d.Apply(b.Cart(1, 2))
	time.Sleep(200 * time.Millisecond)
	b.Refuse(1) // before its removal from the slice: portald retries with another pod
	time.Sleep(200 * time.Millisecond)
	d.Apply(b.Cart(2))
	if b.Rules() != before {
		t.Errorf("a change of endpoints changed rules: before\n%s\nafter\n%s", before, b.Rules())
	}
	time.Sleep(100 * time.Millisecond)
	count, failed := stop()
	delete(count, "")
	if len(count) != 3 {
		t.Errorf("answered by %v, want all three pods", count)
	}
	if len(failed) > 0 {
		t.Errorf("%d connections failed, the first: %v; served: %v", len(failed), failed[0], count)
	}
}

func TestConnectionsOutliveServiceAndEndpoint(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0))
	var still []*bufio.Reader
	var conns []*net.TCPConn
	var answers []bed.Answer
	for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort(b.Node.IPv4.String(),
		bed.NodePort)} {
		c, r, a := b.Open(to)
		conns, still, answers = append(conns, c), append(still, r), append(answers, a)
	}
	alive := func(when string) {
		t.Helper()
		for i, c := range conns {
			if err := bed.Echoes(c, still[i]); err != nil {
				t.Errorf("connection %d %s: %v", i, when, err)
			}
		}
	}
	alive("at first")
	d.Apply(b.Cart(1))
	alive("after its endpoint was removed")
	d.Apply(b.Cart())
	alive("after all endpoints were removed")
	d.Apply(bed.Service{Name: "other", IPs: []string{"10.96.9.9"}, Ports: b.Cart().Ports[:1]})
	alive("after its Service was removed")
	for i, c := range conns {
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if r := d.RecordOf(answers[i]); r.Outcome != "ok" || r.Pod != "shop/pod0" || r.Service != "shop/cart:http" ||
			r.BytesFromClient == 0 {
			t.Errorf("recorded as %s", r)
		}
	}
}
