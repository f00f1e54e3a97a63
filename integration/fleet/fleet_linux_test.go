package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/cluster"
)

// nodes are simulated ones. One more has a pod and no daemon, and one no pod.
const nodes = 200

// patient has nodes answer in their time on a machine that does much else.
const patient = "--node-timeout=1m"

func TestFleet(t *testing.T) {
	f := newFleet(t, nodes)
	f.node("node-mute", kubeletPort)
	t.Run("services", func(t *testing.T) { f.with(t).services() })
	t.Run("connections", func(t *testing.T) { f.with(t).connections() })
	t.Run("explain", func(t *testing.T) { f.with(t).explains() })
	t.Run("records", func(t *testing.T) { f.with(t).records() })
	t.Run("one node", func(t *testing.T) { f.with(t).oneNode() })
	t.Run("page", func(t *testing.T) { f.with(t).page() })
	t.Run("replaced pod", func(t *testing.T) { f.with(t).replaced() })
	t.Run("rights", func(t *testing.T) { f.with(t).rights() })
	t.Run("flood", func(t *testing.T) { f.with(t).flood() })
}

func (f *fleet) with(t *testing.T) *fleet {
	other := *f
	other.T = t
	return &other
}

// leftOut is said of the node whose daemon does not answer.
const leftOut = "node-mute is left out: portald is not reachable at node node-mute " +
	"(pod kube-system/portald-node-mute): "

func (f *fleet) services() {
	a := f.run("services", patient)
	if fields := strings.Fields(strings.Split(a.out, "\n")[1]); len(fields) < 5 || fields[4] != strconv.Itoa(nodes) {
		f.Errorf("want one Service with %d open connections:\n%s", nodes, a.out)
	}
	if !strings.HasPrefix(a.errOut, leftOut) || strings.Count(a.errOut, "\n") != 1 {
		f.Errorf("standard error: %q", a.errOut)
	}
	f.Logf("services of %d nodes: %v, %d MB", nodes, a.took, a.memory>>20)
}

func (f *fleet) connections() {
	a := f.run("conns", "-o", "json", patient)
	var rows []struct {
		PortaldNode string `json:"portald_node"`
	}
	f.must(json.Unmarshal([]byte(a.out), &rows))
	of := map[string]int{}
	for _, r := range rows {
		of[r.PortaldNode]++
	}
	if len(of) != nodes || of[nodeName(17)] != connectionsOf {
		f.Errorf("%d rows of %d nodes", len(rows), len(of))
	}
	f.Logf("%d connections of %d nodes: %v, %d MB", len(rows), nodes, a.took, a.memory>>20)
}

func (f *fleet) explains() {
	a := f.run("explain", "shop/cart", patient)
	for _, want := range []string{
		"shop/cart on 200 nodes\n\nnode-007\n  ✗ The endpoint refuses.\nnode-000, node-001, ",
		"node-199\n  ✓ Nothing stands in the way on this node.\n    node-042: cart-a has 30 of 30 connections\n" +
			"      cart-b came 1m ago\n", "\nshop/cart on node-007\n\nEndpoints\n",
	} {
		if !strings.Contains(a.out, want) {
			f.Errorf("no %q in:\n%s", want, a.out)
		}
	}
	f.Logf("explain on %d nodes: %v, %d MB", nodes, a.took, a.memory>>20)
}

func (f *fleet) records() {
	for i, d := range f.daemons[:3] {
		d.end(uint64(100 + i))
	}
	a := f.run("tail", "--last", "2", patient)
	lines := strings.Split(strings.TrimSpace(a.out), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], " node-001 shop/cart:http ") ||
		!strings.Contains(lines[1], " node-002 shop/cart:http ") {
		f.Errorf("last records:\n%s", a.out)
	}
}

// replaced replaces the pod of a node while a command goes on, as a rollout does: it asks the new one.
func (f *fleet) replaced() {
	node := nodeName(5)
	cmd := f.command(f.Context(), cluster.Admin, "services", "--on-node", node, "--watch", "--interval", "200ms", patient)
	out, err := cmd.StdoutPipe()
	f.must(err)
	f.must(cmd.Start())
	lists := &counter{}
	go lists.count(out, func(line string) int { return strings.Count(line, "shop/cart:http") })
	f.waitFor(lists, 1)
	records, messages := f.tail(node)
	f.endUntil(f.daemons[5], records, 1)
	f.must(f.cluster.Admin.CoreV1().Pods(namespace).Delete(f.Context(), "portald-"+node, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64)}))
	f.daemons[5].stop()
	f.daemons[5].serve(f.whole, f.sockets, "portald-next-"+node)
	f.pod("portald-next-"+node, node)
	f.waitFor(lists, lists.n.Load()+2)
	f.endUntil(f.daemons[5], records, records.n.Load()+1)
	f.waitFor(messages, 2) // it is left out, and answers again
	f.must(cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // it was told to end
}

// tail counts records of a node as they come, and messages.
func (f *fleet) tail(node string) (records, messages *counter) {
	cmd := f.command(f.Context(), cluster.Admin, "tail", "-f", "--on-node", node, patient)
	out, err := cmd.StdoutPipe()
	f.must(err)
	errOut, err := cmd.StderrPipe()
	f.must(err)
	f.must(cmd.Start())
	records, messages = &counter{}, &counter{}
	go records.count(out, func(string) int { return 1 })
	go messages.count(errOut, func(line string) int { return strings.Count(line, node+" ") })
	return records, messages
}

// patience is how long a test waits for what has to come: pods are looked for every half minute. None asserts it.
const patience = 5 * time.Minute

// endUntil ends connections until so many lines are counted.
func (f *fleet) endUntil(d *daemon, c *counter, lines int64) {
	for end := time.Now().Add(patience); c.n.Load() < lines; time.Sleep(100 * time.Millisecond) {
		if d.end(probe); time.Now().After(end) {
			f.Fatalf("%d lines were printed, want %d", c.n.Load(), lines)
		}
	}
}

func (f *fleet) waitFor(c *counter, lines int64) {
	f.Helper()
	for end := time.Now().Add(patience); c.n.Load() < lines; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("%d lines were printed, want %d", c.n.Load(), lines)
		}
	}
}

// clientAddress is of a pod on another node.
const clientAddress = "10.244.4.9"

func (f *fleet) oneNode() {
	f.client(nodeName(4), clientAddress)
	a := f.run("conns", "--on-node", nodeName(3), "--no-headers", patient)
	if n := strings.Count(a.out, nodeName(3)+" "); n != connectionsOf || a.errOut != "" {
		f.Errorf("%d rows, want %d; %s", n, connectionsOf, a.errOut)
	}
	for _, pod := range []string{namespace + "/portald-" + nodeName(3), "pod/" + namespace + "/portald-" + nodeName(3)} {
		a := f.run("conns", "--on-node", pod, "--no-headers", patient)
		if strings.Count(a.out, nodeName(3)+" ") != connectionsOf {
			f.Errorf("the node of pod %s: %s%s", pod, a.out, a.errOut)
		}
	}
	if a := f.run("conns", "--on-node", clientAddress, "--no-headers", patient); strings.Count(a.out, nodeName(4)+" ") !=
		connectionsOf {
		f.Errorf("the node of the client %s: %s%s", clientAddress, a.out, a.errOut)
	}
	if a := f.as(cluster.Admin, "conns", "--on-node", "10.99.99.99"); a.err == nil ||
		!strings.Contains(a.errOut, "find the node of address 10.99.99.99: no running pod has it") {
		f.Errorf("an address of nobody: %v\n%s", a.err, a.errOut)
	}
	if a := f.as(cluster.Admin, "conns", "--on-node", "node-x"); a.err == nil ||
		!strings.Contains(a.errOut, "no pod of portald runs in any namespace on node-x") {
		f.Errorf("a node that is none: %v\n%s", a.err, a.errOut)
	}
}

// flood has all nodes together end 100,000 connections a second for some seconds, as far as this machine comes, and
// then more while the plugin is stopped than any buffer holds. Each is printed, or said to be missing.
func (f *fleet) flood() {
	follower := f.follow()
	ended := f.endConnections(f.daemons, 500, 3*time.Second)
	follower.wait(ended)
	missing := follower.missed.n.Load()
	f.must(follower.Process.Signal(syscall.SIGSTOP))
	ended += f.endConnections(f.daemons[:1], 150_000, time.Second)
	f.must(follower.Process.Signal(syscall.SIGCONT))
	follower.wait(ended)
	if follower.missed.n.Load() == missing && follower.unknown.n.Load() == 0 {
		f.Error("nothing is said to be missing after a stop")
	}
	f.must(follower.Process.Signal(syscall.SIGTERM))
	_ = follower.Wait() // it was told to end
	memory := follower.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	if f.Logf("%d MB of memory", memory); memory > 200 {
		f.Errorf("%d MB of memory, want 200 at most", memory)
	}
}

// follower is a plugin that prints records of all nodes.
type follower struct {
	*exec.Cmd
	f               *fleet
	printed, missed *counter
	unknown         *counter // times that a node was lost for so long that its memory does not reach back
	ended           chan struct{}
}

// follow starts a follower, and returns when it prints records of all nodes.
func (f *fleet) follow() *follower {
	w := &follower{f: f, printed: &counter{}, missed: &counter{}, unknown: &counter{}, ended: make(chan struct{})}
	w.Cmd = f.command(f.Context(), cluster.Admin, "tail", "-f", "-o", "json", patient)
	out, err := w.StdoutPipe()
	f.must(err)
	errOut, err := w.StderrPipe()
	f.must(err)
	f.must(w.Start())
	go func() {
		defer close(w.ended)
		w.printed.count(out, w.isOfFlood)
	}()
	go w.missed.count(errOut, func(line string) (n int) {
		w.unknown.n.Add(int64(strings.Count(line, " may be missing")))
		_, _ = fmt.Sscanf(line, "%d records are missing here", &n) // 0: it is another line
		return n
	})
	f.waitForFollowers(w.printed)
	return w
}

// isOfFlood tells whether a line is of no probe: 1, or 0.
func (w *follower) isOfFlood(line string) int {
	if strings.Contains(line, fmt.Sprintf(`"id":%d,`, probe)) {
		return 0
	}
	return 1
}

// wait waits until so many records are printed or said to be missing, as long as more are. A node that was too slow may
// have been lost, and its records of that time are then said to be missing without their number.
func (w *follower) wait(ended int64) {
	all := func() int64 { return w.printed.n.Load() + w.missed.n.Load() }
	last, end := all(), time.Now().Add(time.Minute)
	for ; last < ended && time.Now().Before(end); last = all() {
		select {
		case <-w.ended:
			w.f.Fatal("the command has ended")
		case <-time.After(50 * time.Millisecond):
		}
		if all() > last {
			end = time.Now().Add(time.Minute)
		}
	}
	w.f.Logf("of %d records %d printed, %d said to be missing; %d times a node was lost for too long", ended,
		w.printed.n.Load(), w.missed.n.Load(), w.unknown.n.Load())
	if all() > ended || all() < ended && w.unknown.n.Load() == 0 {
		w.f.Errorf("%d of %d records are neither printed nor said to be missing", ended-all(), ended)
	}
}

// probe is the id of a record by which it is seen that a node is followed.
const probe = 1 << 40

// waitForFollowers ends a connection on each node until the records of all are printed: it follows all from then on.
func (f *fleet) waitForFollowers(printed *counter) {
	for end := time.Now().Add(patience); printed.nodes() < len(f.daemons); time.Sleep(time.Second) {
		if time.Now().After(end) {
			f.Fatalf("records of %d nodes were printed", printed.nodes())
		}
		for _, d := range f.daemons {
			d.end(probe)
		}
	}
}

// counter counts lines, and the nodes that they are of.
type counter struct {
	n  atomic.Int64
	mu sync.Mutex
	of map[string]bool // guarded by mu
}

func (c *counter) count(lines io.Reader, of func(line string) int) {
	for s := bufio.NewScanner(lines); s.Scan(); {
		c.n.Add(int64(of(s.Text())))
		if _, node, ok := strings.Cut(s.Text(), `"portald_node":"`); ok {
			c.mu.Lock()
			if c.of == nil {
				c.of = map[string]bool{}
			}
			c.of[node] = true
			c.mu.Unlock()
		}
	}
}

func (c *counter) nodes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of)
}

// endConnections has each of some daemons end so many connections a second, and returns the number of all.
func (f *fleet) endConnections(daemons []*daemon, perSecond int, during time.Duration) int64 {
	const steps = 10 // a second
	var all sync.WaitGroup
	var ended atomic.Int64
	for _, d := range daemons {
		all.Go(func() {
			for range during / (time.Second / steps) {
				began := time.Now()
				for i := range perSecond / steps {
					d.end(uint64(i + 1))
				}
				ended.Add(int64(perSecond / steps))
				time.Sleep(time.Second/steps - time.Since(began))
			}
		})
	}
	all.Wait()
	return ended.Load()
}
