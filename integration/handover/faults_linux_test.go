package handover

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/proxy/adminsocket"
)

// A successor that is killed, or told to end, at any moment before it has taken over takes no connection and no rule
// with it: the first goes on.
func TestSuccessorEnds(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "told to end": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0)
			// A start after one whose Services the kernel carried on keeps rules for their flows: it would differ from before.
			d := b.Start(b.Cart(0), "--drain-timeout=1s", "--on-exit=remove")
			c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
			before, wentOn, lost := b.Rules(), 0, 0
			for range 12 {
				next := d.Succeed()
				d.ExpectErrors, next.ExpectErrors = true, true
				time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
				next.Signal(signal)
				<-next.Ended
				tookOver := strings.Contains(next.Log.String(), "Took over from")
				if tookOver || strings.Contains(d.Log.String(), "serves this node now") { // too late: there is none left
					d.Exit() // it still waits for the one that was killed, and would refuse the next
					d = d.Succeed()
					d.WaitReady()
					c, r, _ = b.Open(bed.HostPort(bed.IP4, 80))
					continue
				}
				wentOn++
				if err := bed.Echoes(c, r); err != nil { // it was killed in the moment in which it had the connection
					lost++
					t.Logf("the open connection: %v\n%s", err, next.Log)
					c, r, _ = b.Open(bed.HostPort(bed.IP4, 80))
				}
				b.ServedBy(bed.IP4, bed.PodName(0))
			}
			if after := b.Rules(); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			t.Logf("the first went on %d times of 12", wentOn)
			if lost > 2 || lost > 0 && signal == syscall.SIGTERM {
				t.Errorf("the connection was lost %d times", lost)
			}
		})
	}
}

// A predecessor that is killed while it hands over: with a keeper, the successor has each connection in the end,
// whoever passed it on.
func TestPredecessorIsKilled(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	_, socket := keeper(b)
	d := b.Start(b.Cart(0), "--keep-socket="+socket)
	for range 6 {
		c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
		awaitKept(d, 1)
		next := d.Succeed()
		b.Eventually("the take-over to begin", func() bool {
			return strings.Contains(next.Log.String(), "serves this node") || strings.Contains(next.Log.String(), "Ready")
		})
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		d.Signal(syscall.SIGKILL)
		<-d.Ended
		next.WaitReady()
		if err := bed.Echoes(c, r); err != nil {
			t.Fatalf("the open connection: %v\n%s\n%s", err, d.Log, next.Log)
		}
		c.Close()
		awaitKept(next, 0) // else the next one to open might be taken for kept
		d = next
	}
}

// A portald of another installation is left alone, and does not begin in its place.
func TestOtherInstallation(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
	other := d.Succeed("--service-proxy-name=other", "--healthz-bind-address=127.0.0.1:20256",
		"--metrics-bind-address=127.0.0.1:20249", "--proxy-port-range=18000-18999")
	b.Eventually("the other to begin", func() bool { return strings.Contains(other.Log.String(), "Ready") })
	if log := other.Log.String(); !strings.Contains(log, "begins beside it") || strings.Contains(log, "Took over") {
		t.Errorf("the other says:\n%s", log)
	}
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection: %v", err)
	}
	b.ServedBy(bed.IP4, bed.PodName(0))
	if code := other.Stop(); code != 0 {
		t.Errorf("the other ended with code %d", code)
	}
	b.ServedBy(bed.IP4, bed.PodName(0))
}

// A successor in a kernel mode goes on with the connections that userspace carries, and back.
func TestTakeOverInAnotherMode(t *testing.T) {
	topology.Require(t, "nft")
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	for _, mode := range []string{"nftables", "userspace", "iptables"} {
		d = d.Succeed("--proxy-mode=" + mode)
		b.Eventually("the take-over", func() bool { return strings.Contains(d.Log.String(), "Took over") })
		if err := bed.Echoes(c, r); err != nil {
			t.Fatalf("the open connection, in mode %s: %v\n%s", mode, err, d.Log)
		}
		b.ServedBy(bed.IP4, bed.PodName(0))
	}
	_ = c.CloseWrite()
	if r := d.RecordOf(a); r.Outcome != "ok" || r.CarriedBy != "userspace" {
		t.Errorf("recorded as %s, carried by %s", r, r.CarriedBy)
	}
}

// Affinity, a drained endpoint, and the effects of commands go on after a take-over.
func TestStateIsTakenOver(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	cart.Affinity = 3600
	d := b.Start(cart)
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	drained := ""
	for i := range 3 {
		if drained == "" && bed.PodName(i) != a.Pod {
			drained = bed.PodName(i)
			answer, err := d.Admin().Drain(t.Context(), adminsocket.Drain{Endpoint: "shop/" + drained})
			if err != nil || len(answer.Done) == 0 {
				t.Fatalf("drain %s: %+v, %v", drained, answer, err)
			}
		}
	}
	for range 3 {
		d = d.Succeed()
		d.WaitReady()
		b.Eventually("the take-over", func() bool { return strings.Contains(d.Log.String(), "Took over") })
		for range 3 {
			b.ServedBy(bed.IP4, a.Pod)
		}
		all, err := d.Admin().Endpoints(t.Context(), adminsocket.EndpointQuery{Endpoints: []string{"shop/" + drained}})
		if err != nil || len(all) == 0 || all[0].State != "drained" {
			t.Errorf("%s is %+v, %v, want drained", drained, all, err)
		}
	}
	conns, err := d.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{Ports: []uint16{a.Client.Port()}})
	if err != nil || len(conns) != 1 {
		t.Fatalf("the open connection is listed as %+v, %v", conns, err)
	}
	if _, err := d.Admin().Cut(t.Context(), conns[0].ID); err != nil {
		t.Errorf("cut: %v", err)
	}
	if err := bed.Echoes(c, r); err == nil {
		t.Error("the connection that was cut goes on")
	}
	if r := d.RecordOf(a); r.Outcome != "cut" || r.ID != conns[0].ID {
		t.Errorf("recorded as %s", r)
	}
}

// A successor that may open too few descriptors is refused, and says why: no connection ends.
func TestSuccessorWithoutRoom(t *testing.T) {
	topology.Require(t, "prlimit")
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	var all streams
	serveEcho(b, 1)
	d.Apply(b.Cart(1))
	all.open(b, bed.HostPort(bed.IP4, 80), "asking", 120, all.asks)
	next := b.Exec(append([]string{"prlimit", "--nofile=300:300"}, d.CommandLine()...)...)
	next.ExpectErrors, d.ExpectErrors = true, true
	b.Eventually("the successor to be refused", func() bool {
		return strings.Contains(next.Log.String(), "raise its limit of open files")
	})
	time.Sleep(300 * time.Millisecond)
	for _, s := range all.stop() {
		t.Errorf("%v", s.err)
	}
}
