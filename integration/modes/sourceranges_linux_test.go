package modes

import (
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// A node that has the load balancer's address itself dials it from there. It is admitted while the source ranges hold
// another address of the node, be it one that comes and goes while portald runs.
func TestSourceRangesOfANodeWithTheAddress(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0)
		cart := b.Cart(0)
		cart.Kind, cart.Balancer = "LoadBalancer", []string{bed.Balancer4}
		b.On(b.Node, "ip", "address", "add", bed.Balancer4+"/32", "dev", "lo")
		docs := strings.Replace(cart.String(), "spec:\n", "spec:\n  loadBalancerSourceRanges: [203.0.113.0/24]\n", 1)
		b.Start(docs, m.Args...)
		reached := func() bool {
			a, err := bed.AskWithin(bed.SilenceTimeout, b.Node, "tcp", bed.HostPort(bed.Balancer4, 80))
			return err == nil && a.Pod == "pod0"
		}
		if reached() {
			t.Error("the node is admitted without an address in the ranges")
		}
		b.On(b.Node, "ip", "address", "add", "203.0.113.9/32", "dev", "lo")
		began := time.Now()
		b.Eventually("the node to be admitted", reached)
		t.Logf("%s: after %s", m.Name, time.Since(began).Round(time.Millisecond))
		if _, err := bed.AskWithin(bed.SilenceTimeout, b.Client, "tcp", bed.HostPort(bed.Balancer4, 80)); err == nil {
			t.Error("a client outside the ranges is admitted")
		}
		b.On(b.Node, "ip", "address", "del", "203.0.113.9/32", "dev", "lo")
		b.Eventually("the node to be left out", func() bool { return !reached() })
	})
}
