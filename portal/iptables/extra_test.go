package iptables

import (
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
)

func extras(prefix string) []writer.Chain {
	return []writer.Chain{
		{Table: "nat", Name: prefix + "-IPVS-MARK", Rules: []string{"-j MARK --set-xmark 0x4000/0x4000"}},
		{Table: "nat", Name: prefix + "-IPVS-IN", Rules: []string{"-p tcp -m tcp --dport 9 -j " + prefix + "-IPVS-MARK"},
			From: []writer.Jump{{Chain: "POSTROUTING", Match: "-d 192.0.2.9/32", Last: true}, {Chain: "PREROUTING"}}},
		{Family: inet.IPv6, Table: "filter", Name: prefix + "-IPVS-BALANCER", From: []writer.Jump{{Chain: "INPUT"}}},
	}
}

// Chains of another room are written, audited, and go with ours or when the next run has none.
func TestExtra(t *testing.T) {
	host := newFake()
	o := testOptions(host.run, "")
	o.Extra = extras(DefaultPrefix)
	w := newWriter(t, o)
	must(t, w.Replace(t.Context(), goldenPortals()))
	must(t, w.Audit(t.Context()))
	nat := host.tables["iptables nat"]
	for chain, want := range map[string]string{
		"PREROUTING": "-j PORTALD-SERVICES|-j PORTALD-IPVS-IN", "POSTROUTING": "-d 192.0.2.9/32 -j PORTALD-IPVS-IN",
		"PORTALD-IPVS-IN": "-p tcp -m tcp --dport 9 -j PORTALD-IPVS-MARK",
	} {
		if got := strings.Join(nat[chain], "|"); got != want {
			t.Errorf("%s has %s, want %s", chain, got, want)
		}
	}
	if _, ok := host.tables["ip6tables filter"]["PORTALD-IPVS-BALANCER"]; !ok {
		t.Error("no chain in IPv6")
	}
	nat["PORTALD-IPVS-IN"] = nil
	if err := w.Audit(t.Context()); err == nil || !strings.Contains(err.Error(), "--dport 9") {
		t.Errorf("without a rule the audit says %v", err)
	}
	must(t, newWriter(t, testOptions(host.run, "")).Replace(t.Context(), goldenPortals()))
	if got := host.ours("iptables nat", "PORTALD-IPVS"); len(got) > 0 {
		t.Errorf("the next run leaves %v", got)
	}
}

func TestExtraIsRefused(t *testing.T) {
	for what, x := range map[string]writer.Chain{
		"table": {Table: "raw", Name: "PORTALD-IPVS-A"}, "no name that is known later": {Table: "nat", Name: "PORTALD-MINE"},
		"28 characters": {Table: "nat", Name: "PORTALD-IPVS-" + strings.Repeat("A", 20)},
	} {
		o := testOptions(newFake().run, "")
		o.Extra = []writer.Chain{x}
		if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "extra chain "+x.Name) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Where each endpoint has a chain, the nft variant is given parts, none of them wide, and ends up with the same.
func TestCrowdedScriptGoesInParts(t *testing.T) {
	host, whole := newFake(), newFake()
	portals := spreads(150, 10)
	for i := range portals {
		p, here := *spreadOf(portals[i]).Pool, []portal.Endpoint(nil)
		for _, e := range p.Cluster {
			here = append(here, portal.Endpoint{Addr: e.Addr, MayHairpin: true})
		}
		p.Cluster = here
		portals[i].Target = portal.Spread{Pool: &p}
	}
	w, other := newWriter(t, testOptions(host.run, "")), newWriter(t, testOptions(whole.run, ""))
	other.hosts[0].nft = false
	must(t, w.Replace(t.Context(), portals))
	must(t, other.Replace(t.Context(), portals))
	if host.count("iptables nat") != whole.count("iptables nat") || len(host.ran) <= len(whole.ran) {
		t.Errorf("%d rules by %d scripts, and %d by %d", host.count("iptables nat"), len(host.ran),
			whole.count("iptables nat"), len(whole.ran))
	}
	for _, script := range host.ran {
		if n := strings.Count(script, "\n:"); n > maxWidth {
			t.Errorf("a script has %d chains", n)
		}
	}
}
