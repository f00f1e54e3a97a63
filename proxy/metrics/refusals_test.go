package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Refused packets are counted by Service, within the limit. A Service that is gone gives its place back, and one that
// is not known gets none.
func TestRefusedPackets(t *testing.T) {
	m := NewMetrics(Limits{Services: 8})
	port := func(i int) service.PortName {
		return service.PortName{Namespace: "shop", Name: fmt.Sprint("s", i), Protocol: inet.TCP}
	}
	known := map[service.PortName]bool{}
	for i := range 12 {
		known[port(i)] = true
	}
	since := time.Now()
	m.WatchRefused(func() {}, func(name service.PortName) bool { return known[name] })
	for i := range 12 {
		m.RefusedPackets(port(i), uint64(i), since)
	}
	m.RefusedPackets(service.PortName{Namespace: "shop", Name: "strange"}, 1, since)
	delete(known, port(0))
	m.Forget(port(0))
	m.RefusedPackets(port(0), 5, since)
	m.Forget(port(11)) // what was shown among the others stays
	known[port(12)] = true
	m.RefusedPackets(port(12), 12, since)
	const name = "portald_refused_packets_total"
	want := []string{
		"# HELP " + name + " Packets of clients that rules refused or dropped, since the service port has no endpoint " +
			"for them or is not served. A client that tries again counts again.",
		"# TYPE " + name + " counter",
	}
	for _, i := range []int{1, 2, 3, 4, 5, 6, 12} {
		want = append(want, fmt.Sprintf(`%s{protocol="tcp",service="shop/s%d"} %d`, name, i, i))
	}
	want = append(want, fmt.Sprintf(`%s{protocol="tcp",service="other"} %d`, name, 7+8+9+10+11))
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(strings.Join(want, "\n")+"\n"), name); err != nil {
		t.Error(err)
	}
}

// The last time that a Service refused clients is told apart from those before.
func TestRefusedSince(t *testing.T) {
	m := NewMetrics(DefaultLimits())
	name := service.PortName{Name: "cart"}
	if of := m.RefusedOf(name); of != (Packets{}) {
		t.Errorf("of none: %+v", of)
	}
	first := time.Now()
	m.RefusedPackets(name, 0, first)
	m.RefusedPackets(name, 3, first)
	m.RefusedPackets(name, 1, first.Add(-time.Second)) // of another frontend, which refused before
	if of := m.RefusedOf(name); of.Packets != 4 || of.Last != 4 || of.Since != first || of.Until.Before(first) {
		t.Errorf("at first: %+v", of)
	}
	again := time.Now().Add(time.Hour)
	m.RefusedPackets(name, 0, again)
	if of := m.RefusedOf(name); of.Packets != 4 || of.Last != 0 || of.Since != again || !of.Until.IsZero() {
		t.Errorf("again: %+v", of)
	}
	m.RefusedPackets(name, 2, again)
	if of := m.RefusedOf(name); of.Packets != 6 || of.Last != 2 {
		t.Errorf("again, with packets: %+v", of)
	}
}
