package migrate

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// load is traffic that goes on through a whole migration.
type load struct {
	b    *bed.Bed
	stop func()
	wg   sync.WaitGroup
	step atomic.Pointer[string]

	mu       sync.Mutex
	probers  []*prober
	failures []string
	longest  time.Duration // of a new connection with its exchange
}

// prober sends requests from one host to one address, again and again.
type prober struct {
	from        *topology.Host
	network, to string
	done, lost  atomic.Int64
}

func (a *prober) String() string {
	return fmt.Sprintf("%s from %s to %s", a.network, a.from.Name, a.to)
}

// pause is the time between two requests of a prober.
func pause() time.Duration {
	if bed.InVM {
		return 2 * time.Second
	}
	return 15 * time.Millisecond
}

// lost is the time after which a datagram counts as lost.
func lost() time.Duration { return bed.VMTimeout(2 * time.Second) }

// newLoad connects to all addresses over TCP, and asks them over UDP, from a client outside, the node and a pod.
func newLoad(b *bed.Bed, addresses ...string) *load {
	l := &load{b: b}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = sync.OnceFunc(func() {
		stop()
		l.wg.Wait()
	})
	b.Cleanup(l.stop)
	l.at("before")
	for _, from := range hosts(b) {
		for _, to := range addresses {
			for _, network := range []string{"tcp", "udp"} {
				a := &prober{from: from, network: network, to: to}
				l.probers = append(l.probers, a)
				l.wg.Go(func() { l.ask(ctx, a) })
			}
			if !l.atClusterIP(from) {
				l.wg.Go(func() { l.probeSession(ctx, from, to) })
			}
		}
	}
	return l
}

// hosts are one of each kind. The pod is an endpoint of its own Service, but not with IPVS: in the virtual machine half
// of such a pod's requests by IPv6 get no answer from kube-proxy.
func hosts(b *bed.Bed) []*topology.Host {
	pod := 0
	if bed.InVM {
		pod = 2
	}
	return []*topology.Host{b.Client, b.Node, b.Net.Pod(pod)}
}

// atClusterIP tells whether what a host asks may have the ClusterIP as its own address, which goes with IPVS.
func (l *load) atClusterIP(from *topology.Host) bool { return bed.InVM && from == l.b.Node }

// at says which step of the migration follows.
func (l *load) at(step string) {
	l.step.Store(&step)
	l.b.Logf("%s %s", time.Now().Format("15:04:05.000"), step)
}

func (l *load) fail(began time.Time, step string, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf("%s, in the step %q, now %q: %s", began.Format("15:04:05.000"), step,
		*l.step.Load(), fmt.Sprintf(format, args...)))
}

// ask has a new connection, or a new socket, for each question. A datagram may be lost where rules change under it, and
// a connection of the node in the step in which its address goes with IPVS, but not the next one of this prober too.
func (l *load) ask(ctx context.Context, a *prober) {
	for missed := 0; ctx.Err() == nil; time.Sleep(pause()) {
		limit := bed.AnswerTimeout
		if a.network == "udp" {
			limit = lost()
		}
		began, step := time.Now(), *l.step.Load()
		_, err := bed.AskWithin(limit, a.from, a.network, a.to)
		mayMiss := a.network == "udp" || l.atClusterIP(a.from) && step == leavesIPVS
		switch {
		case err == nil:
			missed = 0
			a.done.Add(1)
			l.took(time.Since(began))
		case mayMiss && missed == 0:
			missed++
			a.lost.Add(1)
			l.b.Logf("%s, in the step %q: no answer: %s: %v", began.Format("15:04:05.000"), step, a, err)
		default:
			l.fail(began, step, "%s: %v", a, err)
		}
	}
}

func (l *load) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, d)
}

// probeSession sends datagrams from one socket all the time. The same limits apply to them.
func (l *load) probeSession(ctx context.Context, from *topology.Host, to string) {
	c, err := bed.Dial(bed.AnswerTimeout, from, "udp", to)
	if err != nil {
		l.fail(time.Now(), "", "%v", err)
		return
	}
	defer c.Close()
	for missed := 0; ctx.Err() == nil; time.Sleep(pause()) {
		began, step := time.Now(), *l.step.Load()
		_ = c.SetDeadline(began.Add(lost()))
		if _, err := bed.AskUDP(c); err == nil {
			missed = 0
		} else if missed++; missed > 1 {
			l.fail(began, step, "two datagrams from %s to %s have no answer: %v", c.LocalAddr(), to, err)
		}
	}
}

// finish ends the load and reports what failed.
func (l *load) finish() {
	l.b.Helper()
	l.stop()
	total := map[string]int64{}
	for _, a := range l.probers {
		total[a.network] += a.done.Load()
		total["lost"] += a.lost.Load()
		if a.done.Load() == 0 {
			l.b.Errorf("%s: nothing was answered", a)
		}
	}
	l.b.Logf("%d connections, the longest took %v; %d exchanges of datagrams, %d lost", total["tcp"],
		l.longest.Round(time.Millisecond), total["udp"], total["lost"])
	if n := len(l.failures); n > 0 {
		slices.Sort(l.failures)
		l.b.Errorf("%d failures:\n%s", n, strings.Join(l.failures[:min(n, 20)], "\n"))
	}
}

// talk is a connection that stays open.
type talk struct {
	name string
	net.Conn
	r *bufio.Reader
}

// open opens a connection to each address from outside, the node and a pod.
func open(b *bed.Bed, name string, addresses ...string) (all []talk) {
	b.Helper()
	for _, from := range hosts(b) {
		for _, to := range addresses {
			c, err := bed.Dial(bed.AnswerTimeout, from, "tcp", to)
			b.Must(err)
			b.Cleanup(func() { c.Close() })
			t := talk{fmt.Sprintf("%s, from %s to %s", name, from.Name, to), c, bufio.NewReader(c)}
			_, err = t.r.ReadString('\n')
			b.Must(err)
			all = append(all, t)
		}
	}
	return all
}

// checkOpen has every connection carry data in both directions.
func checkOpen(b *bed.Bed, when string, all ...talk) {
	b.Helper()
	for _, t := range all {
		_ = t.SetDeadline(time.Now().Add(bed.AnswerTimeout))
		if err := bed.Echoes(t, t.r); err != nil {
			b.Errorf("%s: a connection opened %s: %v", when, t.name, err)
		}
	}
}
