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

// Round robin continues at the same position after an update of the endpoints: updates favour no endpoint.
func TestRoundRobinContinuesAcrossUpdates(t *testing.T) {
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
		cart.Pods[0].Pod = fmt.Sprint("renamed", i) // endpoints change, their addresses do not
		d.Apply(cart)
	}
	if want := map[string]int{"pod0": 2, "pod1": 2, "pod2": 2}; !maps.Equal(count, want) {
		t.Errorf("one connection after each update: %v, want 2 each", count)
	}
}

// One of three pods is dead: its port is closed, or it does not answer at all, and dead pods are not ejected. No
// connection fails, and the live pods share all connections equally.
func TestDeadPodIsSkipped(t *testing.T) {
	for name, die := range map[string]func(*bed.Bed){
		"port closed": func(*bed.Bed) {},
		"silent":      func(b *bed.Bed) { b.On(b.Net.Pod(2), "iptables", "-P", "INPUT", "DROP") },
	} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0, 1)
			die(b)
			d := b.Start(b.Cart(0, 1, 2), "--eject-after=0")
			want := map[string]int{"pod0": 10, "pod1": 10}
			for _, atOnce := range []int{1, 10} {
				if got := b.Tally(20, atOnce, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); !maps.Equal(got, want) {
					t.Errorf("%d at once: %v, want 10 for each live pod", atOnce, got)
				}
			}
			b.Eventually("40 records", func() bool { return len(d.Records()) == 40 })
			dead := bed.HostPort(b.Net.Pod(2).IPv4.String(), bed.PodPort)
			tried := 0
			for _, r := range d.Records() {
				last := r.Attempts[len(r.Attempts)-1]
				if r.Outcome != "ok" || last.Error != "" || last.Endpoint != r.Endpoint || r.ConnectMS == nil {
					t.Errorf("wrong record of a served connection: %s", r)
				}
				for _, a := range r.Attempts[:len(r.Attempts)-1] {
					tried++
					if a.Endpoint != dead || a.Error == "" {
						t.Errorf("failed attempt %v, want the dead pod and an error: %s", a, r)
					}
					if name == "silent" && (a.MS < 200 || a.MS > 1000) {
						t.Errorf("the first attempt took %v ms, want about 250", a.MS)
					}
				}
			}
			if tried < 10 {
				t.Errorf("the dead pod was tried %d times, want at least 10", tried)
			}
			const failed = `portald_dial_attempts_total{protocol="tcp",result="failed",service="shop/cart:http"}`
			if got := d.Metric(failed); int(got) != tried {
				t.Errorf("metric of failed attempts: %v, want %d", got, tried)
			}
		})
	}
}

// A slow dial for one connection does not delay other connections.
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
	limit := 200 * time.Millisecond
	if bed.OnWindows {
		limit = time.Second // Wine's server has one thread for all programs
	}
	late := 0
	for range 50 {
		began := time.Now()
		if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
			t.Errorf("during slow dials: %v", err)
		}
		if time.Since(began) > limit {
			late++
		}
	}
	// A loop that waits for a dial keeps half of them waiting; a busy machine one or two.
	if late > 5 {
		t.Errorf("during slow dials %d of 50 took more than %v", late, limit)
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
		t.Fatalf("%s answered, but no pod listens", a.Pod)
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
