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

// The kernel tells of connections minutes after their end: records of Services that are gone by then take no place,
// which nobody would give back.
func TestLateKernelRecords(t *testing.T) {
	m := NewMetrics(Limits{Services: 8})
	known := map[service.PortName]bool{}
	m.WatchKernelRecords(func() uint64 { return 0 }, func(name service.PortName) bool { return known[name] })
	port := func(name string) service.PortName {
		return service.PortName{Namespace: "shop", Name: name, Protocol: inet.TCP}
	}
	for i := range 20 {
		name := port(fmt.Sprint("gone", i))
		known[name] = true
		m.KernelEnded(&record.Record{Service: name, Outcome: record.OutcomeOK})
		delete(known, name)
		m.Forget(name)
		m.KernelEnded(&record.Record{Service: name, Outcome: record.OutcomeOK})
	}
	known[port("new")] = true
	m.KernelEnded(&record.Record{Service: port("new"), Outcome: record.OutcomeOK})
	const name = "portald_kernel_connections_total"
	want := "# HELP " + name + " Finished connections and UDP flows that the kernel carried and that have a record.\n" +
		"# TYPE " + name + " counter\n" +
		name + `{outcome="ok",protocol="tcp",service="shop/new"} 1` + "\n" +
		name + `{outcome="ok",protocol="tcp",service="other"} 20` + "\n"
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}
