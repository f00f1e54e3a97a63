package migrate

import (
	"regexp"
	"strings"
	"testing"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// A node goes from kube-proxy in each mode to modes of portald and back. All new connections and exchanges succeed.
// Open connections that the kernel carries live on through all of it, and those in userspace until portald ends. The
// node is then as its twin, which only ever had kube-proxy.
func TestThereAndBack(t *testing.T) {
	b := apibed.New(t, 1, 4)
	s, n := b.Sites[0], b.API.Namespace(t, "shop")
	b.AddPods(n, "cart", "a0", "a1")
	b.AddPods(n, "late", "a2")
	services(n)
	twin := newTwin(b)
	for _, node := range []*bed.Bed{s.Bed, twin} {
		plant(node)
	}
	for _, mode := range []string{"iptables", "nftables"} {
		proxy := func(on *bed.Bed) *kubeProxy {
			return &kubeProxy{b: on, program: kubeProxyProgram(), mode: mode,
				kubeconfig: b.API.Kubeconfig(cluster.Proxy)}
		}
		m := &migration{Bed: s.Bed, proxy: proxy(s.Bed), addresses: addresses(s.Bed), changed: marks[mode],
			checks: true}
		m.before = func() {
			remove(n, "late")
			n.Service("gone", alike("cart", 30082, "10.96.0.12", "fd00:10:96::12"))
			s.Eventually("kube-proxy to see the Services", func() bool {
				now := m.ruleset()
				return strings.Contains(now, "10.96.0.12") && strings.Contains(now, "fd00:10:96::12") &&
					!strings.Contains(now, "10.96.0.13") && !strings.Contains(now, "fd00:10:96::13")
			})
		}
		m.meanwhile = func() {
			n.DeleteService("gone")
			n.Service("late", alike("late", 30083, "10.96.0.13", "fd00:10:96::13"))
			for _, to := range []string{"10.96.0.13", "fd00:10:96::13"} {
				b.Answers(s.Client, "tcp", apibed.On80(to), "a2")
			}
		}
		var want []string
		m.want = func() []string {
			if want == nil {
				want = m.stateOf(proxy(twin))
			}
			return want
		}
		m.proxy.start()
		m.served()
		m.load = newLoad(s.Bed, m.addresses...)
		for _, w := range proxyModes() {
			if w.often || *full {
				m.thereAndBack(w)
			}
		}
		m.load.finish()
		m.proxy.stop()
		m.proxy.cleanUp()
		proxy(twin).cleanUp()
	}
}

// marks match the rules that kube-proxy has for the Service late, in each family.
var marks = map[string][]*regexp.Regexp{
	"iptables": {
		regexp.MustCompile(`-A KUBE-SVC-.*shop/late:http -> 10`), regexp.MustCompile(`-A KUBE-SVC-.*shop/late:http -> \[fd`),
	},
	"nftables": {
		regexp.MustCompile(`chain service-\w+-shop/late/tcp/http \{\n.* 10\.244\.`),
		regexp.MustCompile(`chain service-\w+-shop/late/tcp/http \{\n.* \[?fd00:`), // brackets from 1.37 on
	},
}

// addresses are those of cart.
func addresses(b *bed.Bed) []string {
	return []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort(b.Node.IPv4.String(), bed.NodePort)}
}

// stateOf is the state of a node that has this kube-proxy and these Services, and that never had portald.
func (m *migration) stateOf(proxy *kubeProxy) []string {
	m.Helper()
	twin := &migration{Bed: proxy.b}
	proxy.start()
	m.Eventually("kube-proxy to be healthy on the twin", proxy.healthy)
	defer proxy.stop()
	rules := ""
	if !bed.Within(bed.Patience, func() bool { rules = twin.ruleset(); return m.sees(rules) }) {
		m.Fatalf("kube-proxy has not written all of its rules on the twin:\n%s", rules)
	}
	return state(proxy.b)
}
