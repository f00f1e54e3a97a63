package integration

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/cluster"
)

// kernelModes has the daemon of one node go through all modes. As the only service proxy it has kube-proxy's names in those
// of the kernel. Its rules carry on without it, unless it is told otherwise; the rules of the mode before go once those of the next stand.
func kernelModes(b *apiBed, n *cluster.Namespace) {
	s := b.sites[8]
	cart := n.Service("cart", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: web()})
	b.addPods(n, "cart", "i0")
	answers := func() {
		b.Helper()
		for _, client := range s.hosts()[:2] { // the third is a pod that asks for itself in other tests
			b.answersBoth(client, on80(cart.Spec.ClusterIP), "i0")
			b.answers(client, "tcp", joinPort(s.node, nodePortOf(cart, "tcp")), "i0")
		}
	}
	for _, m := range []struct {
		mode, shown string
		args        []string
		holds       map[string]bool // in the ruleset: whether it is there
		stays       bool
	}{
		{"iptables", "iptables", nil, map[string]bool{"KUBE-SVC-": true, "PORTALD": false, "kube-proxy": false}, true},
		{"nftables", "nftables", nil, map[string]bool{"KUBE-SVC-": false, "table ip kube-proxy": true}, true},
		{"ipvs", "iptables", []string{"--ipvs-fallback=iptables"}, map[string]bool{"KUBE-SVC-": true, "table ip kube-proxy": false}, true},
		{"userspace", "userspace", nil, map[string]bool{"KUBE-": false, "PORTALD-IP": true, "table ip kube-proxy": false}, true},
		{"userspace", "userspace", []string{"--on-exit=remove"}, map[string]bool{"KUBE-": false, "PORTALD-IP": true}, false},
	} {
		s.d = nil
		d := b.serveOn(s, append([]string{"--proxy-mode=" + m.mode, "--nodeport-addresses=0.0.0.0/0,::/0"}, m.args...)...)
		answers()
		for what, there := range m.holds {
			b.eventually(what+" in mode "+m.mode, func() bool { return strings.Contains(s.ruleset(), what) == there })
		}
		if _, body, err := d.get("127.0.0.1:10249", "/proxyMode"); err != nil || body != m.shown {
			b.Errorf("mode %s: shown as %q, %v", m.mode, body, err)
		}
		if code := d.stop(); code != 0 {
			b.Fatalf("mode %s: portald ended with code %d", m.mode, code)
		}
		if m.stays {
			answers()
		}
	}
	if rules := s.ruleset(); strings.Contains(rules, "KUBE-") || strings.Contains(rules, "PORTALD") {
		b.Errorf("userspace mode leaves\n%s", rules)
	}
	d := s.launch(nil, b.flags(s, "--proxy-mode=ipvs")...)
	if code := d.exit(); code != 1 || !strings.Contains(d.log.String(), "ipvs.fallback") {
		b.Errorf("without IPVS in the kernel and without fallback: code %d, %s", code, d.log)
	}
}
