package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Datagrams without room are counted by Service, of those that there are, and told with the time of the last ones.
func TestReceiveBufferFull(t *testing.T) {
	m := NewMetrics(DefaultLimits())
	dns := service.PortName{Namespace: "kube-system", Name: "kube-dns", Port: "dns", Protocol: inet.UDP}
	m.WatchReceiveBuffers(func(name service.PortName) bool { return name == dns })
	m.ReceiveBufferFull(dns, 3)
	first := m.ReceiveBufferFullOf(dns)
	m.ReceiveBufferFull(dns, 4)
	gone := dns
	gone.Port = "gone"
	m.ReceiveBufferFull(gone, 1)
	of := m.ReceiveBufferFullOf(dns)
	if of.Packets != 7 || of.Last != 7 || of.Since != first.Since || of.Until.Before(of.Since) {
		t.Errorf("%+v, first %+v", of, first)
	}
	if of := m.ReceiveBufferFullOf(gone); of != (Packets{}) {
		t.Errorf("of one that is gone: %+v", of)
	}
	const help = "Datagrams in userspace mode that the kernel dropped because the receive buffer of portald's socket " +
		"was full."
	const name = "portald_udp_receive_buffer_errors_total"
	const want = "# HELP " + name + " " + help + "\n# TYPE " + name + " counter\n" +
		name + "{protocol=\"udp\",service=\"kube-system/kube-dns:dns\"} 7\n"
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}
