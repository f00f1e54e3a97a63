package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// TestAPIFaults runs its parts one after the other, because a fault of the API server affects all of them. Each part
// has its own daemon.
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

// faults is the test bed of these tests, with one node.
type faults struct {
	*apibed.Bed
	*objects
	site *apibed.Site
	cart string // address of the Service that exists all the time
}

func (f *faults) as(t *testing.T) *faults {
	view := *f
	view.Bed = f.Bed.As(t)
	view.site, view.objects = view.Bed.Sites[0], f.objects.as(view.Bed)
	return &view
}

// start starts the daemon with shorter HTTP/2 health checks: client-go sends a ping after 3 seconds without data and
// waits 6 seconds for the reply (by default 30 and 15).
func (f *faults) start(args ...string) *bed.Daemon {
	f.Helper()
	asks := []string{"env", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=3", "HTTP2_PING_TIMEOUT_SECONDS=6"}
	f.site.D = f.site.Launch(asks, f.Flags(f.site, args...)...)
	return f.site.D
}

// serves starts the daemon and waits until clients reach the first pod.
func (f *faults) serves(args ...string) {
	f.Helper()
	f.lead("cart", f.pods(0)...)
	f.start(args...).WaitReady()
	f.meet(f.cart, "a0")
}

// meet waits until requests to an address have this outcome.
func (f *faults) meet(to, want string) {
	f.Helper()
	limit := apibed.AnswerTimeout
	if want == apibed.NoReply {
		limit = apibed.NoReplyTimeout
	}
	got := ""
	if !bed.Within(apibed.ChangeTimeout, func() bool {
		got = apibed.Outcome(limit, f.site.Client, "tcp", to)
		return got == want
	}) {
		f.Fatalf("%s: got %s after %v, want %s", to, got, apibed.ChangeTimeout, want)
	}
}

// Texts in log lines about the API server.
const (
	isAway = "does not answer"
	isBack = "answers again"
	away   = 2 * time.Second // duration of an outage
)

// startsWithout starts the daemon while the API server is down: the daemon waits and logs it.
func (f *faults) startsWithout() {
	f.site.Must(f.API.Kill(cluster.APIServer))
	d := f.start()
	f.site.Eventually("the daemon to log that the API server does not answer", func() bool { return said(d, isAway) > 0 })
	time.Sleep(away)
	if n := said(d, isAway); n != 1 || said(d, "Waiting for it") != 1 {
		f.Errorf("said %d times that the API server is away, want once", n)
	}
	if code, _, err := d.Get("127.0.0.1:10256", "/healthz"); code != http.StatusServiceUnavailable {
		f.Errorf("/healthz returns %d, %v before the first list", code, err)
	}
	f.site.Must(f.API.Start(cluster.APIServer))
	f.meet(f.cart, "a0")
	f.site.Eventually("the daemon to log that the API server answers", func() bool { return said(d, isBack) == 1 })
}

// said counts the occurrences of a text in the log.
func said(d *bed.Daemon, words string) int { return strings.Count(d.Log.String(), words) }

// outage stops a part of the control plane while clients connect. Known Services stay served, and changes made right
// after the outage take effect.
func outage(p cluster.Program, begin, end func(*cluster.Cluster, cluster.Program) error) func(*faults) {
	return func(f *faults) {
		f.serves()
		f.underTraffic(func() {
			f.site.Must(begin(f.API, p))
			time.Sleep(away)
			f.healthy()
		}, func() {
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

// underTraffic has a fault begin, and end when some clients have connected meanwhile. No connection fails; the log
// reports the loss of the API server at most once, and its return.
func (f *faults) underTraffic(begin, end, after func()) {
	f.Helper()
	d := f.site.D
	lost, back := said(d, isAway), said(d, isBack)
	t := startTraffic(f.site.Bed, f.cart)
	f.site.Eventually("clients to be served", func() bool { return t.served() >= 10 })
	before := t.served()
	begin()
	f.site.Eventually("clients to be served during the fault", func() bool { return t.served() >= before+20 })
	meanwhile := t.served() - before
	end()
	after()
	f.Logf("%d connections, %d of them during the fault", t.stop(), meanwhile)
	f.site.Eventually("the daemon to log that the API server answers again", func() bool {
		return said(d, isAway)-lost == said(d, isBack)-back
	})
	if n := said(d, isAway) - lost; n > 1 {
		f.Errorf("said %d times that the API server is away, want once", n)
	}
}

// healthy checks that faults of the control plane do not make this node unhealthy.
func (f *faults) healthy() {
	f.Helper()
	for _, path := range []string{"/healthz", "/livez"} {
		if code, body, err := f.site.Get("127.0.0.1:10256", path); code != http.StatusOK {
			f.Errorf("%s returns %d %s %v", path, code, body, err)
		}
	}
}

// nodeDeleted deletes the Node object of this node: the daemon logs it and continues to serve.
func (f *faults) nodeDeleted() {
	const gone = "its Node object was removed"
	f.serves()
	d, nodes := f.site.D, f.API.Admin.CoreV1().Nodes()
	f.underTraffic(func() {
		f.site.Must(nodes.Delete(f.Context(), f.site.Name, metav1.DeleteOptions{}))
		f.site.Eventually("the log to report the deleted Node", func() bool { return said(d, gone) == 1 })
		time.Sleep(away / 2)
		f.healthy()
	}, func() {}, func() {
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
