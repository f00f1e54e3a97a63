package modes

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

// elsewhere is a Service with Local policies whose only endpoint is on another node.
const elsewhere = `---
apiVersion: v1
kind: Service
metadata: {name: away, namespace: shop}
spec:
  type: NodePort
  clusterIP: 10.96.0.77
  clusterIPs: ["10.96.0.77"]
  internalTrafficPolicy: Local
  externalTrafficPolicy: Local
  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30077}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: away-1, namespace: shop, labels: {kubernetes.io/service-name: away}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.7.7], nodeName: there, conditions: {ready: true}}]
`

// explained is a report on one thing.
type explained struct {
	*bed.Daemon
	*explain.Report
}

func explainOf(d *bed.Daemon, what, from string) explained {
	d.Helper()
	var r explain.Report
	d.Eventually("rules to be read within the time that explain gives them", func() (read bool) {
		var err error
		r, err = d.Admin().Explain(d.Context(), what, from)
		d.Must(err)
		return !strings.Contains(r.Verdict.Text, "be read") // of rules: "could not", or "not all … could"
	})
	return explained{d, &r}
}

// verdict checks the status and a part of the sentence.
func (e explained) verdict(status explain.Status, part string) {
	e.Helper()
	if e.Verdict.Status != status || !strings.Contains(e.Verdict.Text, part) || e.Next == "" {
		e.Errorf("%s: verdict %+v, next %q; want %s: %s", e.What, e.Verdict, e.Next, status, part)
	}
}

// has checks that a section has a line, or a detail of one.
func (e explained) has(section, text string) {
	e.Helper()
	for _, s := range e.Sections {
		for _, l := range s.Lines {
			if strings.Contains(s.Title, section) && strings.Contains(l.Text+"\n"+strings.Join(l.Details, "\n"), text) {
				return
			}
		}
	}
	e.Errorf("%s: no %q in %q of %+v", e.What, text, section, e.Sections)
}

// A Service's treatment on a node is explained in every mode: the healthy parts, and the planted faults.
func TestExplain(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0, 1)
		zebra, empty := b.Simple("zebra", bed.IP4, 0), b.Simple("empty", "10.96.8.8", 0)
		empty.Pods = nil
		cart := b.Cart(0, 1)
		cart.Pods[1].Conditions = "ready: false"
		d := b.Start(cart.String()+zebra.String()+empty.String()+elsewhere, m.Args...)
		a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
		if !m.Kernel {
			d.RecordOf(a) // its client has seen its end before portald has
		}
		b.Open(bed.HostPort(bed.IP4, 80)) // conntrack has it, however long it takes to read the rules

		e := explainOf(d, "shop/cart:http", "")
		e.verdict(explain.Good, "Clients of shop/cart:http get 1 of its 2 endpoints")
		e.has("Frontends", "ClusterIP 10.96.0.10:80/tcp")
		e.has("Mode", map[bool]string{false: "userspace, by the default", true: "kernel, by the default"}[m.Kernel])
		e.has("Rules of other programs", "none of those")
		e.has("Rules of portald", "nothing is missing")
		e.has("Endpoints", "not used: it is not ready")
		e.has("Connection tracking", "to 10.96.0.10:80")
		if !m.Kernel {
			e.has("Last connections", ": ok, ")
		}
		explainOf(d, "shop/zebra", "").verdict(explain.Wrong, "the older Service shop/cart:http holds it")
		explainOf(d, "shop/empty", "").verdict(explain.Wrong, "shop/empty:http has no endpoint of IPv4")
		explainOf(d, "shop/away", "").verdict(explain.Wrong, "the traffic policy is Local")
		explainOf(d, "pod/shop/"+cart.Pods[1].Pod, "").verdict(explain.Doubt, "is not used: it is not ready")
		if e := explainOf(d, "shop/crat", ""); e.Known() || strings.Join(e.Nearest, " ") != "shop/cart" {
			t.Errorf("nearest: %q", e.Nearest)
		}
		planted(d, b.Client.IPv4)
	})
}

// planted plants rules of other programs, one after the other, and has each named.
func planted(d *bed.Daemon, client netip.Addr) {
	d.Helper()
	const service = bed.IP4 + "/32"
	drop := []string{"-t", "raw", "-A", "PREROUTING", "-d", service, "-p", "tcp", "-j", "DROP"}
	dnat := []string{"-t", "nat", "-I", "PREROUTING", "-d", service, "-p", "tcp", "-j", "DNAT", "--to-destination",
		"10.9.9.9"}
	for _, rule := range [][]string{drop, dnat} {
		d.On(d.Node, "iptables", append([]string{"-w"}, rule...)...)
		e := explainOf(d, bed.HostPort(bed.IP4, 80)+"/tcp", client.String())
		text := "-A PREROUTING -d " + service + " -p tcp -j " + rule[9]
		e.has("Rules of other programs", text)
		if e.Verdict.Status == explain.Good || !strings.Contains(e.Verdict.Text, text) {
			d.Errorf("%s is not the verdict: %+v", text, e.Verdict)
		}
		rule[2] = "-D"
		d.On(d.Node, "iptables", append([]string{"-w"}, rule...)...)
	}
	if bed.InVM {
		return // without nft
	}
	d.On(d.Node, "nft", "add table inet fw; "+
		"add chain inet fw in { type filter hook prerouting priority -200; policy drop; }; "+
		"add rule inet fw in ip daddr != "+bed.IP4+" accept")
	explainOf(d, "shop/cart:http", client.String()).verdict(explain.Wrong,
		"nftables table inet fw: chain in has the policy drop")
	d.On(d.Node, "nft", "delete table inet fw")
	explainOf(d, "shop/cart:http", "").verdict(explain.Good, "Clients of shop/cart:http")
}

// A connection is explained by its id, while it is open and when it has ended, and a rule that is gone is missed.
func TestExplainAConnection(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	c, _, a := b.Open(bed.HostPort(bed.IP4, 80))
	e := explainOf(d, "1", "")
	e.verdict(explain.Good, "Clients of shop/cart:http get")
	e.has("Connection", bed.LocalAddr(c).String()+" to 10.96.0.10:80")
	b.Must(c.Close())
	d.RecordOf(a)
	explainOf(d, "1", "").verdict(explain.Good, "ended as ok")
	b.Eventually("explain before the audit has put the rule back", func() bool {
		b.On(b.Node, "iptables", "-w", "-t", "nat", "-D", "PREROUTING", "-j", "PORTALD-SERVICES")
		e = explainOf(d, "shop/cart:http", "")
		if e.Verdict.Status == explain.Good { // it has: on a busy machine it may be first
			d.On(d.Node, "sh", "-c", "until iptables -w -t nat -C PREROUTING -j PORTALD-SERVICES; do sleep 0.05; done")
		}
		return e.Verdict.Status != explain.Good
	})
	e.verdict(explain.Wrong, "Rules of shop/cart:http are missing")
	e.has("Rules of portald", "missing: iptables -t nat -A PREROUTING -j PORTALD-SERVICES")
}

// The exit code says whether anything is known.
func TestExplainEndsWithACode(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	for what, code := range map[string]string{
		"shop/cart": "", "shop/none": "exit status 4", "none": "exit status 4", "a/b/c": "exit status 2",
	} {
		line := b.Line("explain", what, "--socket", d.Socket)
		out, err := b.Try(b.Node, line[0], line[1:]...)
		if code == "" && (err != nil || !strings.Contains(out, "Next: portald conns --service shop/cart")) ||
			code != "" && (err == nil || !strings.Contains(err.Error(), code)) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}
