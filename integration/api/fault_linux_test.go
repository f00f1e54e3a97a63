package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/cluster"
)

// TestAPIFaults has parts that follow one another, for what is wrong with the API server is wrong for all of them. Each
// has a daemon of its own.
func TestAPIFaults(t *testing.T) {
	b := apibed.New(t, 1, 3)
	f := &faults{Bed: b, site: b.Sites[0], objects: newObjects(b, "faults")}
	f.cart = f.service("cart", bed.PodPort, f.pods(0)...)
	for _, part := range []struct {
		name string
		run  func(*faults)
	}{
		{"a start without the API server", (*faults).startsWithout},
		{"the API server is killed", outage(cluster.APIServer, (*cluster.Cluster).Kill, (*cluster.Cluster).Start)},
		{"the API server stands still", outage(cluster.APIServer, (*cluster.Cluster).Pause, (*cluster.Cluster).Continue)},
		{"etcd is killed", outage(cluster.Etcd, (*cluster.Cluster).Kill, (*cluster.Cluster).Start)},
		{"etcd stands still", outage(cluster.Etcd, (*cluster.Cluster).Pause, (*cluster.Cluster).Continue)},
		{"the link is cut", (*faults).linkCut},
		{"portald stands still", (*faults).standsStill},
		{"the Node is deleted", (*faults).nodeDeleted},
		{"the disk is full", (*faults).diskFull},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(f.as(t)) })
	}
}

// faults is the bed of these tests: one node.
type faults struct {
	*apibed.Bed
	*objects
	site *apibed.Site
	cart string // where clients dial the Service that is there all the time
}

func (f *faults) as(t *testing.T) *faults {
	view := *f
	view.Bed = f.Bed.As(t)
	view.site, view.objects = view.Bed.Sites[0], f.objects.as(view.Bed)
	return &view
}

// start starts the daemon. After seconds of silence the library asks whether the API server is there, and waits for an
// answer: three and six here, by itself 30 and 15.
func (f *faults) start(args ...string) *bed.Daemon {
	f.Helper()
	asks := []string{"env", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=3", "HTTP2_PING_TIMEOUT_SECONDS=6"}
	f.site.D = f.site.Launch(asks, f.Flags(f.site, args...)...)
	return f.site.D
}

// serves starts the daemon and waits until it leads clients to the first pod.
func (f *faults) serves(args ...string) {
	f.Helper()
	f.lead("cart", f.pods(0)...)
	f.start(args...).WaitReady()
	f.meet(f.cart, "a0")
}

// meet waits until clients meet this at an address: longer than it takes to hear of changes after a fault, for which
// the daemon tries again at growing intervals.
func (f *faults) meet(to, want string) {
	f.Helper()
	const patience = time.Minute
	limit := apibed.AnswerTimeout
	if want == apibed.NoReply {
		limit = apibed.NoReplyTimeout
	}
	got := ""
	if !bed.Within(patience, func() bool { got = apibed.Outcome(limit, f.site.Client, "tcp", to); return got == want }) {
		f.Fatalf("%s meets %s after %v, want %s", to, got, patience, want)
	}
}

// The words in which the daemon tells of the API server.
const (
	isAway = "does not answer"
	isBack = "answers again"
	away   = 2 * time.Second // how long something is
)

// startsWithout starts the daemon while the API server is away: it waits, and says so.
func (f *faults) startsWithout() {
	f.site.Must(f.API.Kill(cluster.APIServer))
	d := f.start()
	f.site.Eventually("the daemon to say what it waits for", func() bool { return said(d, isAway) > 0 })
	time.Sleep(away)
	if n := said(d, isAway); n != 1 || said(d, "Waiting for it") != 1 {
		f.Errorf("said %d times that the API server is away, want once", n)
	}
	if code, _, err := d.Get("127.0.0.1:10256", "/healthz"); code != http.StatusServiceUnavailable {
		f.Errorf("/healthz says %d, %v before anything is known", code, err)
	}
	f.site.Must(f.API.Start(cluster.APIServer))
	f.meet(f.cart, "a0")
	f.site.Eventually("the daemon to say that the server is there", func() bool { return said(d, isBack) == 1 })
}

// said counts words in the log.
func said(d *bed.Daemon, words string) int { return strings.Count(d.Log.String(), words) }

// outage is a part of the control plane being away while clients connect. What was known is served, and what changes
// at once when it is back reaches clients.
func outage(p cluster.Program, begin, end func(*cluster.Cluster, cluster.Program) error) func(*faults) {
	return func(f *faults) {
		f.serves()
		f.underTraffic(func() {
			f.site.Must(begin(f.API, p))
			time.Sleep(away)
			f.healthy()
			f.site.Must(end(f.API, p))
		}, func() {
			f.lead("cart", f.pods(1)...)
			began := time.Now()
			f.meet(f.cart, "a1")
			f.Logf("a change was served %v after it was written", time.Since(began).Round(time.Millisecond))
			later := f.service("later", bed.PodPort, f.pods(2)...)
			f.meet(later, "a2")
			f.remove("later")
		})
	}
}

// underTraffic has clients connect all the time. They are served throughout the fault, none ever fails, and what went
// wrong with the API server is said once, if at all, and when it is over.
func (f *faults) underTraffic(fault, after func()) {
	f.Helper()
	d := f.site.D
	lost, back := said(d, isAway), said(d, isBack)
	t := startTraffic(f.site.Bed, f.cart)
	f.site.Eventually("clients to be served", func() bool { return t.served() >= 10 })
	before := t.served()
	fault()
	meanwhile := t.served() - before
	after()
	total := t.stop()
	if meanwhile < 20 {
		f.Errorf("%d connections were made during the fault, and %d in all", meanwhile, total)
	}
	f.Logf("%d connections, %d of them during the fault", total, meanwhile)
	f.site.Eventually("the daemon to say that the server is back", func() bool {
		return said(d, isAway)-lost == said(d, isBack)-back
	})
	if n := said(d, isAway) - lost; n > 1 {
		f.Errorf("said %d times that the API server is away, want once", n)
	}
}

// healthy sees that what is wrong elsewhere is not held against this node.
func (f *faults) healthy() {
	f.Helper()
	for _, path := range []string{"/healthz", "/livez"} {
		if code, body, err := f.site.Get("127.0.0.1:10256", path); code != http.StatusOK {
			f.Errorf("%s says %d %s %v", path, code, body, err)
		}
	}
}

// nodeDeleted deletes this node's Node, which is said, and nothing else.
func (f *faults) nodeDeleted() {
	const gone = "its Node object was removed"
	f.serves()
	d, nodes := f.site.D, f.API.Admin.CoreV1().Nodes()
	f.underTraffic(func() {
		f.site.Must(nodes.Delete(f.Context(), f.site.Name, metav1.DeleteOptions{}))
		f.site.Eventually("the loss to be said", func() bool { return said(d, gone) == 1 })
		time.Sleep(away / 2)
		f.healthy()
	}, func() {
		f.changesArrive()
		f.API.Node(f, f.site.Name, f.site.Net, nil)
		f.changesArrive()
	})
	if n := said(d, gone); n != 1 {
		f.Errorf("said %d times that the Node is gone, want once", n)
	}
}

// changesArrive moves the Service to another pod and back.
func (f *faults) changesArrive() {
	f.Helper()
	for i, name := range []string{"a2", "a0"} {
		f.lead("cart", f.pods(2-2*i)...)
		f.meet(f.cart, name)
	}
}
