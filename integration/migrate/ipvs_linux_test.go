package migrate

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/platform/netnstest"
)

// The same with kube-proxy in IPVS mode, by the kernel of a virtual machine. To portald in userspace mode the way is
// not open there: kube-proxy --cleanup, which it takes, fails after IPVS with iptables 1.8.9.
func TestThereAndBackWithIPVS(t *testing.T) {
	switch {
	case bed.InVM:
	case netnstest.Elsewhere("ipvs"):
		t.Skip("runs in a virtual machine, by make test-ipvs")
	default:
		topology.Lack(t, "needs a virtual machine (make test-ipvs)")
	}
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	lan, err := topology.New(t.Context(), topology.Options{Clients: 2, Pods: 3, IPv6: true, Name: fmt.Sprintf("n%d-twin-",
		bed.Networks.Add(1))})
	b.Must(err)
	t.Cleanup(func() { b.Must(lan.Close()) })
	twin := &bed.Bed{T: t, Net: lan, Node: lan.Node, Client: lan.Client(0), Dir: t.TempDir()}
	twin.RouteOut()
	proxy := func(on *bed.Bed) *kubeProxy {
		return &kubeProxy{b: on, program: kubeProxyProgram(), mode: "ipvs", kubeconfig: serveAPI(on, objects(on))}
	}
	m := &migration{Bed: b, proxy: proxy(b), addresses: addresses(b)[:2], meanwhile: func() {},
		changed: []*regexp.Regexp{
			regexp.MustCompile(`-a -t 10.96.0.10:80 -r 10.244.0.3:8080`),
			regexp.MustCompile(`-a -t .fd00:10:96::10.:80 -r .fd00:10:244::3.:8080`),
			regexp.MustCompile(`-A KUBE-SERVICES .*--match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT`),
			regexp.MustCompile(`-A KUBE-SERVICES .*--match-set KUBE-6-CLUSTER-IP dst,dst -j ACCEPT`),
		}}
	// Virtual servers answer before the rules of IPv6 are there, without which flows are not tracked.
	m.before = func() {
		b.Eventually("kube-proxy to write its rules", func() bool { return m.sees(m.ruleset()) })
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
	m.load = newLoad(b, m.addresses...)
	m.thereAndBack(proxyMode{name: "IPVS", args: []string{"--proxy-mode=ipvs"}, ends: true})
	m.load.finish()
}
