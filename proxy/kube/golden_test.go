package kube

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/proxy/service"
)

// render writes service ports as text, one thing a line.
func render(ports []*service.Port) string {
	var out strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&out, "%s", p.Name)
		if !p.Created.IsZero() {
			fmt.Fprintf(&out, " created %s", p.Created.UTC().Format("2006-01-02T15:04:05Z"))
		}
		if p.Affinity > 0 {
			fmt.Fprintf(&out, " affinity %v", p.Affinity)
		}
		if len(p.SourceRanges) > 0 {
			fmt.Fprintf(&out, " from %v", p.SourceRanges)
		}
		out.WriteString(renderTraffic(p))
		out.WriteByte('\n')
		for _, e := range p.Exposures {
			fmt.Fprintf(&out, "  %s %s\n", e.Kind, e.Frontend)
		}
		for _, e := range p.Endpoints {
			fmt.Fprintf(&out, "  -> %s%s\n", e.Addr, renderEndpoint(e))
		}
	}
	return out.String()
}

// all renders what is in a store.
func all(store *service.Store) string {
	ports, _ := store.All()
	return render(ports)
}

// renderTraffic writes what is not as it is by default.
func renderTraffic(p *service.Port) (out string) {
	if p.InternalLocal {
		out += " internal-local"
	}
	if p.ExternalLocal {
		out += " external-local"
	}
	if p.HealthCheckPort != 0 {
		out += fmt.Sprintf(" health-check %d", p.HealthCheckPort)
	}
	if p.Mode != service.ModeDefault {
		out += " mode " + p.Mode.String()
	}
	if !p.Policy.Equal(service.Policy{}) {
		out += fmt.Sprintf(" policy %+v", p.Policy)
	}
	return out
}

func renderEndpoint(e service.Endpoint) string {
	var out string
	for _, flag := range []struct {
		on   bool
		name string
	}{{e.Local, "local"}, {e.Ready, "ready"}, {e.Serving, "serving"}, {e.Terminating, "terminating"}, {e.Distant, "distant"}} {
		if flag.on {
			out += " " + flag.name
		}
	}
	for _, text := range []string{e.Pod, e.Node, e.Zone} {
		if text != "" {
			out += " " + text
		}
	}
	return out
}

// A dump of a real cluster is served whole. UPDATE_GOLDEN=1 writes the expectation anew.
func TestRealClusterIsServedWhole(t *testing.T) {
	log, logged := logtest.NewNullLogger()
	store := service.NewStore()
	cache := NewCache(store, TranslateOptions{
		NodeName: "n1", ExternalIPs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}, log)
	m := NewManifests([]string{"testdata/cluster.yaml"}, cache, log)
	check(t, m.open())
	files, err := m.stale()
	check(t, err)
	m.update(readings(files))
	for _, e := range logged.AllEntries() {
		t.Error("said:", e.Message)
	}
	got := all(store)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		check(t, os.WriteFile("testdata/cluster.golden", []byte(got), 0o644))
	}
	golden, err := os.ReadFile("testdata/cluster.golden")
	check(t, err)
	if diff := cmp.Diff(string(golden), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	node, ok := cache.Node()
	want := Node{Name: "n1", Zone: "z0", Addresses: []netip.Addr{netip.MustParseAddr("10.250.0.11")}, Eligible: true,
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}
	if !ok || !want.Equal(node) {
		t.Errorf("node: %v %v, want %v", node, ok, want)
	}
	if svcs, slices := cache.Changes(); svcs != 13 || slices != 12 {
		t.Errorf("changes: %d Services and %d EndpointSlices", svcs, slices)
	}
}

// messages are the texts logged at a level.
func messages(hook *logtest.Hook, level logrus.Level) (out []string) {
	for _, e := range hook.AllEntries() {
		if e.Level == level {
			out = append(out, e.Message)
		}
	}
	return out
}
