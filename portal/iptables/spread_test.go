package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// Names are those that kube-proxy gives, and fit.
func TestOwnerChainNames(t *testing.T) {
	dns := service.PortName{Namespace: "kube-system", Name: "kube-dns", Port: "dns", Protocol: inet.UDP}
	api := service.PortName{Namespace: "default", Name: "kubernetes", Port: "https", Protocol: inet.TCP}
	for _, test := range []struct {
		prefix string
		owner  service.PortName
		want   string
	}{
		{"KUBE", dns, "KUBE-SVC-TCOU7JCQXEZGVUNU"},
		{"KUBE", api, "KUBE-SVC-NPX46M4PTMTKRN6Y"},
		{"PORTALD-00FF0F", api, "PORTALD-00FF0F-SVC-NPX46M4PTM"},
	} {
		names, err := newChains(test.prefix, "")
		if err != nil {
			t.Fatal(err)
		}
		got := names.scoped(test.owner, service.ClusterScope)
		if got != test.want[:min(maxName, len(test.want))] || len(got) > maxName || !names.own(got) {
			t.Errorf("%s has %s, want %s, at most %d characters, and known as ours", test.owner, got, test.want, maxName)
		}
	}
}

// The depth of a chain that is found on the host is the one that it has when written.
func TestDepths(t *testing.T) {
	host := newFake()
	o := spreadOptions(host.run, "")
	o.LocalDetector.Sources = prefixes("10.244.0.0/16", "10.245.0.0/16")
	o.Extra = extras(o.Prefix)
	w := newWriter(t, o)
	w.Guard(map[portal.ProxyPort]bool{{Protocol: inet.TCP, Port: portaltest.FirstPort}: true,
		{Protocol: inet.TCP, Port: portaltest.FirstPort + 2}: true})
	depths := map[depth]bool{}
	for _, portals := range spreadCases() {
		must(t, w.Replace(t.Context(), portals))
		for _, table := range slices.Concat(w.hosts[0].tables(), w.hosts[1].tables()) {
			for name, c := range table.written {
				if got, ours := table.depthOf(name); !ours || got != c.depth {
					t.Errorf("%s is ours: %t, at depth %d, want %d", name, ours, got, c.depth)
				}
				depths[c.depth] = true
			}
		}
	}
	if len(depths) != len(nameForms) {
		t.Errorf("chains of %d depths were written, want %d", len(depths), len(nameForms))
	}
}

func TestShare(t *testing.T) {
	for n, want := range map[int]string{1: "", 2: "0.50000000000", 3: "0.33333333349", 10: "0.10000000009"} {
		if got := share(service.AlgorithmDefault, n); !strings.Contains(got, want) || (n == 1) != (got == "") {
			t.Errorf("one in %d: %q, want %s", n, got, want)
		}
	}
}

// ours are the chains of a table whose names begin so.
func (f *fake) ours(table, begin string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.tables[table])), func(name string) bool {
		return !strings.HasPrefix(name, begin)
	})
}

// change updates with portals, and withdraws those without a target.
func change(t *testing.T, w *Writer, portals ...portal.Portal) {
	t.Helper()
	var changes []portal.Change
	for i, p := range portals {
		c := portal.Change{Frontend: p.Frontend, Portal: &portals[i]}
		if p.Target == nil {
			c.Portal = nil
		}
		changes = append(changes, c)
	}
	if err := w.Update(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if err := w.Audit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func gone(p portal.Portal) portal.Portal { return portal.Portal{Frontend: p.Frontend} }

// Chains of an owner are there exactly while some portal leads to them, and the rules in everybody's way while there is
// an owner.
func TestOwnerChainsComeAndGo(t *testing.T) {
	host := newFake()
	w := newWriter(t, spreadOptions(host.run, ""))
	if err := w.Replace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	empty := fmt.Sprint(host.tables)
	canaries := 1 // from the first portal that spreads to the next Replace without any
	expect := func(when string, want ...int) {
		t.Helper()
		for i, kind := range []string{"SVC", "SVL", "EXT", "SEP"} {
			if got := len(host.ours("iptables nat", "KUBE-"+kind)); got != want[i] {
				t.Errorf("%s: %d chains %s, want %d", when, got, kind, want[i])
			}
		}
		for _, table := range []string{"nat", "filter", "mangle"} {
			if got := len(host.ours("iptables "+table, "KUBE-PROXY-CANARY")); got != canaries {
				t.Errorf("%s: %d canaries in %s", when, got, table)
			}
		}
	}
	all := spreadPortals("cart", 1, inet.IPv4, pool(cluster4, node4, affinity), service.ClusterScope, service.NodeScope)
	change(t, w, all[0])
	expect("a ClusterIP", 1, 0, 0, 1)
	change(t, w, all[1:3]...)
	expect("a NodePort and an ExternalIP", 1, 1, 1, 1)
	change(t, w, gone(all[1]))
	expect("without the NodePort", 1, 1, 1, 1)
	change(t, w, gone(all[2]))
	expect("without the ExternalIP", 1, 0, 0, 1)
	flipped := all[0]
	flipped.Target = portal.Redirect{Port: 20001}
	change(t, w, flipped)
	expect("as a Redirect", 0, 0, 0, 0)
	change(t, w, gone(all[0]))
	expect("without any", 0, 0, 0, 0)
	if err := w.Replace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	canaries = 0
	expect("replaced", 0, 0, 0, 0)
	if diff := cmp.Diff(empty, fmt.Sprint(host.tables)); diff != "" {
		t.Errorf("something is left (-want +got):\n%s", diff)
	}
}

// A frontend that another Service takes over leaves nothing of the first.
func TestFrontendChangesHands(t *testing.T) {
	host := newFake()
	w := newWriter(t, spreadOptions(host.run, ""))
	mine := spreadPortals("cart", 1, inet.IPv4, pool(cluster4, ""), service.ClusterScope, service.ClusterScope)[:1]
	if err := w.Replace(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	theirs := mine[0]
	theirs.Owner = name("shop", "http")
	change(t, w, theirs)
	want := []string{w.hosts[0].nat.scoped(theirs.Owner, service.ClusterScope)}
	if diff := cmp.Diff(want, host.ours("iptables nat", "KUBE-SVC")); diff != "" {
		t.Errorf("chains of owners (-want +got):\n%s", diff)
	}
}

// A change of endpoints is one script that has that owner's chains alone, and a flip one that has the leaf too.
func TestChangesAreOneScript(t *testing.T) {
	host := newFake()
	w := newWriter(t, spreadOptions(host.run, ""))
	cart := spreadPortals("cart", 1, inet.IPv4, pool(cluster4, ""), service.ClusterScope, service.ClusterScope)[:1]
	shop := spreadPortals("shop", 2, inet.IPv4, pool(cluster4, ""), service.ClusterScope, service.ClusterScope)[:1]
	if err := w.Replace(t.Context(), append(shop, cart...)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what   string
		target portal.Target
		chains int
	}{
		{"other endpoints", portal.Spread{Pool: pool("10.244.2.2:8080 10.244.9.2:8080", "")}, 2}, // SVC, and SEP goes
		{"a flip to Redirect", portal.Redirect{Port: 20001}, 2},                                  // the leaf, and SVC goes
		{"a flip to Spread", portal.Spread{Pool: pool(cluster4, "")}, 3},
	} {
		host.ran = nil
		p := cart[0]
		p.Target = test.target
		change(t, w, p)
		if len(host.ran) != 1 || !strings.Contains(host.ran[0], "*nat\n") ||
			strings.Count(host.ran[0], "\n:") != test.chains {
			t.Errorf("%s: ran %q, want one script of nat with %d chains", test.what, host.ran, test.chains)
		}
	}
}

// With many rules an audit lists a few chains, and everything once an hour.
func TestAuditOfMany(t *testing.T) {
	host := newFake()
	w := newWriter(t, spreadOptions(host.run, ""))
	few := spreadPortals("cart", 1, inet.IPv6, pool(cluster6, ""), service.ClusterScope, service.ClusterScope)
	if err := w.Replace(t.Context(), slices.Concat(spreads(600, 10), few)); err != nil {
		t.Fatal(err)
	}
	without := func(table, chain string) error {
		was := host.tables[table]
		defer func() { host.tables[table] = was }()
		host.tables[table] = maps.Clone(was)
		if rules := was[chain]; len(rules) > 0 {
			host.tables[table][chain] = rules[1:]
		} else {
			delete(host.tables[table], chain)
		}
		return w.Audit(t.Context())
	}
	if err := w.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	for table, chains := range map[string]string{
		"iptables nat":    "PREROUTING OUTPUT POSTROUTING KUBE-SERVICES KUBE-PROXY-CANARY",
		"iptables filter": "FORWARD INPUT OUTPUT KUBE-PROXY-CANARY",
		"iptables mangle": "KUBE-PROXY-CANARY",
		"ip6tables nat":   "KUBE-IP", // which holds little, and is read back
	} {
		for _, chain := range strings.Fields(chains) {
			if err := without(table, chain); err == nil {
				t.Errorf("misses damage to %s in %s", chain, table)
			}
		}
	}
	deep := host.ours("iptables nat", "KUBE-SVC")[5]
	if err := without("iptables nat", deep); err != nil {
		t.Errorf("looks at everything: %v", err)
	}
	w.hosts[0].whole = time.Now().Add(-2 * wholeAudit)
	if err := without("iptables nat", deep); err == nil {
		t.Error("never looks at everything")
	}
}

func TestSpreadOptions(t *testing.T) {
	o := testOptions(newFake().run, "")
	o.Mark = portal.DefaultMasqueradeMark | 1
	if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "0x4000") {
		t.Errorf("the marks collide: %v", err)
	}
	o = testOptions(newFake().run, "")
	o.Liberal, o.Masquerade = true, portal.Masquerade{Mark: 1 << 7, All: true}
	o.LocalDetector.Sources = prefixes("10.1.0.0/16", "10.2.0.0/16")
	text, err := Render(o, spreadCases()["kinds"], nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{
		"INVALID": false, "0x4000": false, "OUTSIDE": false, "--set-xmark 0x80/0x0": true,
		"-d 10.96.0.1/32 -j PORTALD-MARK-MASQ": true,
	} {
		if got := strings.Contains(string(text), word); got != want {
			t.Errorf("%q is in the rules: %t, want %t", word, got, want)
		}
	}
}

// Commands that do not know --random-fully are not given it, by no chain: one word that they do not know fails all
// rules.
func TestCommandsWithoutRandomFully(t *testing.T) {
	for version, known := range map[string]bool{
		"v1.4.21": false, "v1.6.1": false, "v1.6.2": true, "v1.8.9 (legacy)": true, "v1.8.9 (nf_tables)": true,
		"v10.0.0": true, "": true, "vX": false,
	} {
		host := newFake()
		host.version = version
		if !known {
			host.lacks = "--random-fully"
		}
		said := 0
		o := spreadOptions(host.run, "")
		o.Log = func(string, ...any) { said++ }
		o.Extra = []writer.Chain{{Table: natTable, Name: "KUBE-IPVS-MASQ", Rules: []string{"-j MASQUERADE --random-fully"}}}
		w := newWriter(t, o)
		if err := w.Replace(t.Context(), spreadCases()["kinds"]); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if err := w.Audit(t.Context()); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		text := host.save("iptables", natTable)
		if strings.Contains(text, "--random-fully") != known || strings.Count(text, "-j MASQUERADE") != 2 ||
			(said == 0) != known {
			t.Errorf("%s: said %d, wrote\n%s", version, said, text)
		}
	}
}

func TestUnsoundSpreads(t *testing.T) {
	for what, p := range map[string]*portal.Pool{
		"no pool":         nil,
		"other family":    pool("[fd00::1]:80", ""),
		"port 0":          pool("10.244.1.1:0", ""),
		"here, of others": pool("10.244.1.1:80", "[fd00::1]:80"),
	} {
		portals := spreadPortals("cart", 1, inet.IPv4, p, service.ClusterScope, service.ClusterScope)[:1]
		_, err := Render(spreadOptions(nil, ""), portals, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "shop/cart") {
			t.Errorf("%s: %v, want an error that names the owner", what, err)
		}
	}
}

// Render returns the rules that Replace writes.
func TestRenderIsReplace(t *testing.T) {
	for what, portals := range spreadCases() {
		rendered, replaced := newFake(), newFake()
		text, err := Render(spreadOptions(nil, ""), portals, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for f, part := range parts(text) {
			for table := range strings.SplitAfterSeq(strings.TrimSuffix(part, "\n"), "COMMIT\n") {
				if err := rendered.restore(f.command, strings.Split(table, "\n")); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
		}
		if err := newWriter(t, spreadOptions(replaced.run, "")).Replace(t.Context(), portals); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fmt.Sprint(replaced.tables), fmt.Sprint(rendered.tables)); diff != "" {
			t.Errorf("%s (-Replace +Render):\n%s", what, diff)
		}
	}
}

// parts splits the output of Render by family.
func parts(text []byte) map[*family]string {
	v4, v6 := ipv4(), ipv6()
	first, second, _ := strings.Cut(string(text), "# ip6tables-restore --noflush\n")
	return map[*family]string{&v4: strings.TrimPrefix(first, "# iptables-restore --noflush\n"), &v6: second}
}
