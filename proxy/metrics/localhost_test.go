package metrics

import (
	"net/netip"
	"testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Of the connections at NodePorts those at the loopback address are counted by kube-proxy's name.
func TestLocalhostNodePorts(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	for _, c := range []struct {
		to      string
		kind    service.Kind
		outcome record.Outcome
	}{
		{"127.0.0.1:30080", service.NodePort, record.OutcomeOK},
		{"[::1]:30080", service.NodePort, record.OutcomeReset},
		{"192.0.2.1:30080", service.NodePort, record.OutcomeOK},
		{"127.0.0.1:80", service.ExternalIP, record.OutcomeOK},
		{"127.0.0.1:11000", service.NodePort, record.OutcomeNotPortal},
	} {
		r := sample()
		r.OriginalDst, r.Portal, r.Outcome = netip.MustParseAddrPort(c.to), c.kind, c.outcome
		observe(m, r)
	}
	wantMetrics(t, m, `
# HELP kubeproxy_iptables_localhost_nodeports_accepted_packets_total Connections and UDP sessions at NodePorts of loopback addresses.
# TYPE kubeproxy_iptables_localhost_nodeports_accepted_packets_total counter
kubeproxy_iptables_localhost_nodeports_accepted_packets_total 2
`, "kubeproxy_iptables_localhost_nodeports_accepted_packets_total")
}
