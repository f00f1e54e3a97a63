package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Records of the kernel are counted by Service, within the limit; a Service that is gone gives its place back.
func TestKernelConnections(t *testing.T) {
	m := NewMetrics(Limits{Services: 8})
	port := func(i int) service.PortName {
		return service.PortName{Namespace: "shop", Name: fmt.Sprint("s", i), Protocol: inet.TCP}
	}
	for i := range 12 {
		m.KernelEnded(&record.Record{Service: port(i), Outcome: record.OutcomeReset})
	}
	m.Forget(port(0))
	m.KernelEnded(&record.Record{Service: port(11), Outcome: record.OutcomeOK})
	const name = "portald_kernel_connections_total"
	want := []string{
		"# HELP " + name + " Finished connections and UDP flows that the kernel carried and that have a record.",
		"# TYPE " + name + " counter",
	}
	for i := 1; i < 7; i++ {
		want = append(want, fmt.Sprintf(`%s{outcome="reset",protocol="tcp",service="shop/s%d"} 1`, name, i))
	}
	want = append(want, name+`{outcome="ok",protocol="tcp",service="shop/s11"} 1`,
		name+`{outcome="reset",protocol="tcp",service="other"} 5`)
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(strings.Join(want, "\n")+"\n"), name); err != nil {
		t.Error(err)
	}
}
