package api

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/cluster"
)

// kernelModes runs the daemon of one node in all modes. As the only service proxy it uses kube-proxy's chain names in
// kernel modes. The rules keep working after its end unless configured otherwise, and the rules of the previous mode
// are removed once those of the next mode are in place.
func kernelModes(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[8]
	cart := n.Service("cart", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: apibed.Web()})
	b.AddPods(n, "cart", "i0")
	answers := func() {
		b.Helper()
		for _, client := range s.Hosts()[:2] { // the third is a pod, tested for hairpin connections elsewhere
			b.AnswersBoth(client, apibed.On80(cart.Spec.ClusterIP), "i0")
			b.Answers(client, "tcp", joinPort(s.Node, nodePortOf(cart, "tcp")), "i0")
		}
	}
	for _, m := range []struct {
		mode, shown string
		args        []string
		rules       map[string]bool // in the ruleset: whether it is there
		stays       bool
	}{
		{"iptables", "iptables", nil, map[string]bool{"KUBE-SVC-": true, "PORTALD": false, "kube-proxy": false}, true},
		{"nftables", "nftables", nil, map[string]bool{"KUBE-SVC-": false, "table ip kube-proxy": true}, true},
		{"ipvs", "iptables", []string{"--ipvs-fallback=iptables"}, map[string]bool{"KUBE-SVC-": true,
			"table ip kube-proxy": false}, true},
		{"userspace", "userspace", nil, map[string]bool{"KUBE-": false, "PORTALD-IP": true, "table ip kube-proxy": false},
			true},
		{"userspace", "userspace", []string{"--on-exit=remove"}, map[string]bool{"KUBE-": false, "PORTALD-IP": true}, false},
	} {
		s.D = nil
		d := b.ServeOn(s, append([]string{"--proxy-mode=" + m.mode, "--nodeport-addresses=0.0.0.0/0,::/0"}, m.args...)...)
		answers()
		for what, there := range m.rules {
			b.Eventually(what+" in mode "+m.mode, func() bool { return strings.Contains(s.Ruleset(), what) == there })
		}
		if _, body, err := d.Get("127.0.0.1:10249", "/proxyMode"); err != nil || body != m.shown {
			b.Errorf("mode %s: /proxyMode returns %q, %v", m.mode, body, err)
		}
		if code := d.Stop(); code != 0 {
			b.Fatalf("mode %s: portald ended with code %d", m.mode, code)
		}
		if m.stays {
			answers()
		}
	}
	if rules := s.Ruleset(); strings.Contains(rules, "KUBE-") || strings.Contains(rules, "PORTALD") {
		b.Errorf("userspace mode leaves\n%s", rules)
	}
	d := s.Launch(nil, b.Flags(s, "--proxy-mode=ipvs")...)
	if code := d.Exit(); code != 1 || !strings.Contains(d.Log.String(), "ipvs.fallback") {
		b.Errorf("without IPVS in the kernel and without fallback: code %d, %s", code, d.Log)
	}
}
