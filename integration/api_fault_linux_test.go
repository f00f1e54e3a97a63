package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/cluster"
)

// TestAPIFaults has parts that follow one another, for what is wrong with the API server is wrong for all of them. Each
// has a daemon of its own.
func TestAPIFaults(t *testing.T) {
	b := newAPIBed(t, 1, 3)
	f := &faults{apiBed: b, site: b.sites[0], objects: newObjects(b, "faults")}
	f.cart = f.service("cart", podPort, f.pods(0)...)
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
	*apiBed
	*objects
	site *site
	cart string // where clients dial the Service that is there all the time
}

func (f *faults) as(t *testing.T) *faults {
	view := *f
	view.apiBed = f.apiBed.as(t)
	view.site, view.objects = view.apiBed.sites[0], f.objects.as(view.apiBed)
	return &view
}

// start starts the daemon. After seconds of silence the library asks whether the API server is there, and waits for an
// answer: three and six here, by itself 30 and 15.
func (f *faults) start(args ...string) *daemon {
	f.Helper()
	asks := []string{"env", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=3", "HTTP2_PING_TIMEOUT_SECONDS=6"}
	f.site.d = f.site.launch(asks, f.flags(f.site, args...)...)
	return f.site.d
}

// serves starts the daemon and waits until it leads clients to the first pod.
func (f *faults) serves(args ...string) {
	f.Helper()
	f.lead("cart", f.pods(0)...)
	f.start(args...).waitReady()
	f.meet(f.cart, "a0")
}

// meet waits until clients meet this at an address: longer than it takes to hear of changes after a fault, for which the
// daemon tries again at growing intervals.
func (f *faults) meet(to, want string) {
	f.Helper()
	const patience = time.Minute
	limit := apiAnswer
	if want == silence {
		limit = apiSilence
	}
	got := ""
	if !within(patience, func() bool { got = meets(limit, f.site.client, "tcp", to); return got == want }) {
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
	f.site.must(f.api.Kill(cluster.APIServer))
	d := f.start()
	f.site.eventually("the daemon to say what it waits for", func() bool { return d.said(isAway) > 0 })
	time.Sleep(away)
	if n := d.said(isAway); n != 1 || d.said("Waiting for it") != 1 {
		f.Errorf("said %d times that the API server is away, want once", n)
	}
	if code, _, err := d.get("127.0.0.1:10256", "/healthz"); code != http.StatusServiceUnavailable {
		f.Errorf("/healthz says %d, %v before anything is known", code, err)
	}
	f.site.must(f.api.Start(cluster.APIServer))
	f.meet(f.cart, "a0")
	f.site.eventually("the daemon to say that the server is there", func() bool { return d.said(isBack) == 1 })
}

// said counts words in the log.
func (d *daemon) said(words string) int { return strings.Count(d.log.String(), words) }

// outage is a part of the control plane being away while clients connect. What was known is served, and what changes
// at once when it is back reaches clients.
func outage(p cluster.Program, begin, end func(*cluster.Cluster, cluster.Program) error) func(*faults) {
	return func(f *faults) {
		f.serves()
		f.underTraffic(func() {
			f.site.must(begin(f.api, p))
			time.Sleep(away)
			f.healthy()
			f.site.must(end(f.api, p))
		}, func() {
			f.lead("cart", f.pods(1)...)
			began := time.Now()
			f.meet(f.cart, "a1")
			f.Logf("a change was served %v after it was written", time.Since(began).Round(time.Millisecond))
			later := f.service("later", podPort, f.pods(2)...)
			f.meet(later, "a2")
			f.remove("later")
		})
	}
}

// underTraffic has clients connect all the time. They are served throughout the fault, none ever fails, and what went
// wrong with the API server is said once, if at all, and when it is over.
func (f *faults) underTraffic(fault, after func()) {
	f.Helper()
	d := f.site.d
	lost, back := d.said(isAway), d.said(isBack)
	t := f.site.traffic(f.cart)
	f.site.eventually("clients to be served", func() bool { return t.served() >= 10 })
	before := t.served()
	fault()
	meanwhile := t.served() - before
	after()
	total := t.stop()
	if meanwhile < 20 {
		f.Errorf("%d connections were made during the fault, and %d in all", meanwhile, total)
	}
	f.Logf("%d connections, %d of them during the fault", total, meanwhile)
	f.site.eventually("the daemon to say that the server is back", func() bool {
		return d.said(isAway)-lost == d.said(isBack)-back
	})
	if n := d.said(isAway) - lost; n > 1 {
		f.Errorf("said %d times that the API server is away, want once", n)
	}
}

// healthy sees that what is wrong elsewhere is not held against this node.
func (f *faults) healthy() {
	f.Helper()
	for _, path := range []string{"/healthz", "/livez"} {
		if code, body, err := f.site.get("127.0.0.1:10256", path); code != http.StatusOK {
			f.Errorf("%s says %d %s %v", path, code, body, err)
		}
	}
}

// nodeDeleted deletes this node's Node, which is said, and nothing else.
func (f *faults) nodeDeleted() {
	const gone = "its Node object is gone"
	f.serves()
	d, nodes := f.site.d, f.api.Admin.CoreV1().Nodes()
	f.underTraffic(func() {
		f.site.must(nodes.Delete(f.Context(), f.site.name, metav1.DeleteOptions{}))
		f.site.eventually("the loss to be said", func() bool { return d.said(gone) == 1 })
		time.Sleep(away / 2)
		f.healthy()
	}, func() {
		f.changesArrive()
		f.api.Node(f, f.site.name, f.site.net, nil)
		f.changesArrive()
	})
	if n := d.said(gone); n != 1 {
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
