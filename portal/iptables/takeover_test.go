package iptables

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// kubeProxyRules are the rules that a kube-proxy and a kubelet leave, by table.
var kubeProxyRules = map[string]string{
	natTable: `*nat
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-EXT-I5LIAMPLWKMBJ54B - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SEP-ABCDEFGHIJKLMNOP - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-I5LIAMPLWKMBJ54B - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-EXT-I5LIAMPLWKMBJ54B -j KUBE-MARK-MASQ
-A KUBE-EXT-I5LIAMPLWKMBJ54B -j KUBE-SVC-I5LIAMPLWKMBJ54B
-A KUBE-NODEPORTS -p tcp -m tcp --dport 30001 -j KUBE-EXT-I5LIAMPLWKMBJ54B
-A KUBE-SVC-I5LIAMPLWKMBJ54B -j KUBE-SEP-ABCDEFGHIJKLMNOP
-A KUBE-SVC-ABCDEFGHIJKLMNOP -j KUBE-SEP-ABCDEFGHIJKLMNOP
-A KUBE-SEP-ABCDEFGHIJKLMNOP -p tcp -m tcp -j DNAT --to-destination 10.244.1.2:8080
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "shop/cart:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-I5LIAMPLWKMBJ54B
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
`,
	filterTable: `*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-EXTERNAL-SERVICES -d 192.0.2.9/32 -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
`,
	mangleTable: `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
`,
}

const kubeletChains = `KUBE-FIREWALL KUBE-KUBELET-CANARY KUBE-IPTABLES-HINT KUBE-MARK-DROP`

// Rules of a kube-proxy are taken over as our own, in nat in one step, and kubelet's rules stay.
func TestTakeOver(t *testing.T) {
	takeOver(t, func() testHost { return testHost{run: newFake().run} })
}

func takeOver(t *testing.T, open func() testHost) {
	t.Helper()
	dump := func(h testHost) string {
		text, err := h.Dump(t.Context())
		must(t, err)
		return text
	}
	portals := spreadPortals("cart", 1, inet.IPv4, pool(cluster4, ""), service.ClusterScope, service.ClusterScope)
	host, fresh := open(), open()
	for _, rules := range kubeProxyRules {
		must(t, host.restore(t.Context(), ipv4(), rules))
		must(t, fresh.restore(t.Context(), ipv4(), kubeletAlone(rules)))
	}
	w, pure := newWriter(t, spreadOptions(host.run, host.variant)), newWriter(t, spreadOptions(fresh.run, fresh.variant))
	must(t, w.Replace(t.Context(), portals))
	must(t, w.Audit(t.Context()))
	must(t, pure.Replace(t.Context(), portals))
	if diff := gocmp.Diff(dump(fresh), dump(host)); diff != "" {
		t.Errorf("after a kube-proxy (-without +with):\n%s", diff)
	}
	for _, rules := range kubeProxyRules {
		must(t, host.restore(t.Context(), ipv4(), rules))
	}
	must(t, pure.Cleanup(t.Context()))
	must(t, w.Cleanup(t.Context()))
	left := dump(host)
	for _, name := range strings.Fields(kubeletChains) {
		if !strings.Contains(left, ":"+name+" ") {
			t.Errorf("Cleanup removes %s", name)
		}
		left = strings.ReplaceAll(left, name, "")
	}
	if i := strings.Index(left, "KUBE-"); i >= 0 {
		t.Errorf("Cleanup leaves %.40s", left[i:])
	}
}

// kubeletAlone are the rules that kubelet has.
func kubeletAlone(rules string) string {
	var b strings.Builder
	for line := range strings.Lines(rules) {
		if !strings.Contains(line, "KUBE-") || slices.ContainsFunc(strings.Fields(kubeletChains), func(name string) bool {
			return strings.HasPrefix(line, ":"+name+" ") || strings.HasPrefix(line, "-A "+name+" ") ||
				strings.HasSuffix(line, "-j "+name+"\n")
		}) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
