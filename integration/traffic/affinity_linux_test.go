package traffic

import (
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// sticky returns cart with ClientIP affinity.
func sticky(b *bed.Bed, seconds int, pods ...int) bed.Service {
	s := b.Cart(pods...)
	s.Affinity = seconds
	return s
}

// bound sends one request and returns the pod that answered and the affinity field of the record.
func bound(d *bed.Daemon, from *topology.Host) (pod, how string) {
	d.Helper()
	a, err := bed.Ask(from, "tcp", bed.HostPort(bed.IP4, 80))
	if err != nil {
		d.Fatal(err)
	}
	return a.Pod, d.RecordOf(a).Affinity
}

func TestAffinitySticks(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	d := b.Start(sticky(b, 60, 0, 1, 2))
	for _, from := range []*topology.Host{b.Client, b.Net.Client(1), b.Node} {
		first, how := bound(d, from)
		if how != "new" {
			t.Errorf("the first connection of %s: affinity %q, want new", from.Name, how)
		}
		for _, network := range []string{"tcp", "udp"} { // affinity is kept per service port
			if got := b.Tally(9, 3, from, network, bed.HostPort(bed.IP4, 80)); len(got) != 1 || network == "tcp" &&
				got[first] != 9 {
				t.Errorf("%s from %s: %v, want one pod alone, over TCP %s", network, from.Name, got, first)
			}
		}
		if _, how := bound(d, from); how != "hit" {
			t.Errorf("a later connection of %s: affinity %q, want hit", from.Name, how)
		}
	}
	d.Apply(b.Cart(0, 1, 2))
	if got := b.Tally(9, 3, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); len(got) != 3 {
		t.Errorf("without affinity: %v, want all three pods", got)
	}
}

// The affinity timeout restarts with each connection. A changed timeout also applies to existing entries.
func TestAffinityTimeout(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	d := b.Start(sticky(b, 2, 0, 1, 2))
	first, _ := bound(d, b.Client)
	for range 3 {
		time.Sleep(1200 * time.Millisecond)
		if pod, how := bound(d, b.Client); pod != first || how != "hit" {
			t.Errorf("1.2 s after the last connection: %s, %s, want %s again", pod, how, first)
		}
	}
	time.Sleep(2100 * time.Millisecond)
	if _, how := bound(d, b.Client); how != "new" {
		t.Errorf("2.1 s after the last connection: %s, want new", how)
	}
	d.Apply(sticky(b, 60, 0, 1, 2))
	time.Sleep(2100 * time.Millisecond)
	if _, how := bound(d, b.Client); how != "hit" {
		t.Errorf("2.1 s after the last connection, timeout raised to a minute: %s, want hit", how)
	}
	d.Apply(sticky(b, 1, 0, 1, 2))
	time.Sleep(1100 * time.Millisecond)
	if _, how := bound(d, b.Client); how != "new" {
		t.Errorf("1.1 s after the last connection, timeout lowered to a second: %s, want new", how)
	}
}

func TestAffinityEndsWithItsEndpoint(t *testing.T) {
	b := bed.New(t)
	stop := b.ServePods(0, 1, 2)
	d := b.Start(sticky(b, 60, 0, 1, 2))
	first, _ := bound(d, b.Client)
	gone := int(first[len(first)-1] - '0')
	d.Apply(sticky(b, 60, (gone+1)%3, (gone+2)%3))
	second, how := bound(d, b.Client)
	if second == first || how != "new" {
		t.Errorf("after %s was removed: %s, %s, want another pod and new", first, second, how)
	}
	d.Apply(sticky(b, 60, 0, 1, 2))
	if pod, how := bound(d, b.Client); pod != second || how != "hit" {
		t.Errorf("after %s came back: %s, %s, want %s still", first, pod, how, second)
	}
	stop[int(second[len(second)-1]-'0')]() // dead, while the EndpointSlice still lists it
	third, how := bound(d, b.Client)
	if third == second || how != "moved" {
		t.Errorf("after %s died: %s, %s, want another pod and moved", second, third, how)
	}
	if pod, how := bound(d, b.Client); pod != third || how != "hit" {
		t.Errorf("after the client moved: %s, %s, want %s still", pod, how, third)
	}
}
