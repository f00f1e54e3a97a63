package traffic

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

func TestRoundRobinIsExact(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	b.Start(b.Cart(0, 1, 2))
	want := map[string]int{"pod0": 10, "pod1": 10, "pod2": 10}
	for _, network := range []string{"tcp", "udp"} {
		for _, addr := range []string{bed.IP4, bed.IP6} {
			for _, atOnce := range []int{1, 10} {
				if got := b.Tally(30, atOnce, b.Client, network, bed.HostPort(addr, 80)); !maps.Equal(got, want) {
					t.Errorf("%s %s, %d at once: %v, want 10 each", network, addr, atOnce, got)
				}
			}
		}
	}
}

// An update of the endpoints goes on with the turn where it was: no endpoint is favoured by updates.
func TestRoundRobinGoesOnAtUpdates(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	d := b.Start(b.Cart(0, 1, 2))
	count := map[string]int{}
	for i := range 6 {
		for pod, n := range b.Tally(1, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80)) {
			count[pod] += n
		}
		cart := b.Cart(0, 1, 2)
		cart.Pods = append(cart.Pods, bed.Endpoint{Pod: fmt.Sprint("late", i), V6: bed.Parse("fd00:10:244::99")})
		cart.Pods[0].Pod = fmt.Sprint("renamed", i) // a change of the endpoints, their addresses apart
		d.Apply(cart)
	}
	if want := map[string]int{"pod0": 2, "pod1": 2, "pod2": 2}; !maps.Equal(count, want) {
		t.Errorf("a connection between updates: %v, want 2 each", count)
	}
}

// A pod whose port is closed, and one that does not answer at all: not one connection fails, and the live ones share
// all of them.
func TestDeadPodIsTriedPast(t *testing.T) {
	for name, die := range map[string]func(*bed.Bed){
		"port closed":     func(*bed.Bed) {},
		"gone from sight": func(b *bed.Bed) { b.On(b.Net.Pod(2), "iptables", "-P", "INPUT", "DROP") },
	} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0, 1)
			die(b)
			d := b.Start(b.Cart(0, 1, 2))
			want := map[string]int{"pod0": 10, "pod1": 10}
			for _, atOnce := range []int{1, 10} {
				if got := b.Tally(20, atOnce, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); !maps.Equal(got, want) {
					t.Errorf("%d at once: %v, want 10 for each that lives", atOnce, got)
				}
			}
			b.Eventually("40 records", func() bool { return len(d.Records()) == 40 })
			dead := bed.HostPort(b.Net.Pod(2).IPv4.String(), bed.PodPort)
			tried := 0
			for _, r := range d.Records() {
				last := r.Attempts[len(r.Attempts)-1]
				if r.Outcome != "ok" || last.Error != "" || last.Endpoint != r.Endpoint || r.ConnectMS == nil {
					t.Errorf("a record of a connection that was served: %s", r)
				}
				for _, a := range r.Attempts[:len(r.Attempts)-1] {
					tried++
					if a.Endpoint != dead || a.Error == "" {
						t.Errorf("tried %v first, want the dead pod and why it failed: %s", a, r)
					}
					if name == "gone from sight" && (a.MS < 200 || a.MS > 1000) {
						t.Errorf("the first attempt took %v ms, want some 250", a.MS)
					}
				}
			}
			if tried < 10 {
				t.Errorf("the dead pod was tried %d times, want a third of the turns or more", tried)
			}
			if got := d.Metric(`portald_dial_attempts_total{protocol="tcp",result="failed",service="shop/cart:http"}`); int(got) != tried {
				t.Errorf("metric of failed attempts: %v, want %d", got, tried)
			}
		})
	}
}

// A slow dial of one connection holds up no other.
func TestNoHeadOfLineBlocking(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.On(b.Net.Pod(2), "iptables", "-P", "INPUT", "DROP")
	slow := bed.Service{Name: "slow", IPs: []string{"10.96.7.7"},
		Ports: []bed.Port{bed.NewPort("http", "TCP", 80, 0, bed.PodPort)}, Pods: b.Endpoints(2)}
	b.Start(slow.String() + b.Cart(0).String())
	stuck := make(chan error, 20)
	for range cap(stuck) {
		go func() {
			_, err := bed.Ask(b.Client, "tcp", bed.HostPort("10.96.7.7", 80))
			stuck <- err
		}()
	}
	for range 50 {
		began := time.Now()
		if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil ||
			time.Since(began) > 200*time.Millisecond {
			t.Errorf("beside slow dials: %v after %v", err, time.Since(began))
		}
	}
	for range cap(stuck) {
		if err := <-stuck; err == nil {
			t.Error("a pod that does not answer served a connection")
		}
	}
}

func TestEveryPodIsDead(t *testing.T) {
	b := bed.New(t)
	d := b.Start(b.Cart(0, 1, 2))
	a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err == nil {
		t.Fatalf("%s answered, and none listens", a.Pod)
	}
	r := d.RecordWhere("of the failure", func(r bed.Record) bool { return r.Outcome == "dial_failed" })
	seen := map[string]bool{}
	for _, a := range r.Attempts {
		seen[a.Endpoint] = true
	}
	if len(r.Attempts) != 3 || len(seen) != 3 || r.Endpoint != "" || r.ConnectMS != nil || r.ClosedBy != "proxy" ||
		r.CloseType != "reset" {
		t.Errorf("recorded as %s, want three attempts at three pods and a reset by the proxy", r)
	}
}
