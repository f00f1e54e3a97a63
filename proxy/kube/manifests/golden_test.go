package manifests

import (
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
	"github.com/portald/portald/proxy/kube/translate"
)

// A dump of a real cluster is served whole. UPDATE_GOLDEN=1 writes the expectation again.
func TestRealClusterIsServedWhole(t *testing.T) {
	log, logged := logtest.NewNullLogger()
	store := service.NewStore()
	cache := translate.NewCache(store, translate.Options{
		NodeName: "n1", ExternalIPs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}, log)
	m := New([]string{"testdata/cluster.yaml"}, cache, log)
	check(t, m.open())
	files, err := m.stale()
	check(t, err)
	m.update(readings(files))
	for _, e := range logged.AllEntries() {
		t.Error("said:", e.Message)
	}
	got := objecttest.All(store)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		check(t, os.WriteFile("testdata/cluster.golden", []byte(got), 0o644))
	}
	golden, err := os.ReadFile("testdata/cluster.golden")
	check(t, err)
	if diff := cmp.Diff(string(golden), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	node, ok := cache.Node()
	want := translate.Node{Name: "n1", Zone: "z0", Addresses: []netip.Addr{netip.MustParseAddr("10.250.0.11")},
		Eligible: true,
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}
	if !ok || !want.Equal(node) {
		t.Errorf("node: %v %v, want %v", node, ok, want)
	}
	if svcs, slices := cache.Changes(); svcs != 13 || slices != 12 {
		t.Errorf("changes: %d Services and %d EndpointSlices", svcs, slices)
	}
}
