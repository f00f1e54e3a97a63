package iptables

import (
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Rules kept for flows of portals that spread, while none does any more, are adopted, and go with the next Replace.
func TestAdoptKeepsWhatFlowsNeed(t *testing.T) {
	host := newFake()
	portals := spreadPortals("cart", 1, inet.IPv4, pool(cluster4, "", affinity), service.ClusterScope,
		service.ClusterScope)
	w := newWriter(t, richOptions(host.run, ""))
	must(t, w.Replace(t.Context(), portals))
	var gone []portal.Change
	for _, p := range portals {
		gone = append(gone, portal.Change{Frontend: p.Frontend})
	}
	must(t, w.Update(t.Context(), gone))
	host.ran = nil
	w = newWriter(t, richOptions(host.run, ""))
	must(t, w.Adopt(t.Context(), nil))
	must(t, w.Audit(t.Context()))
	if len(host.ran) > 0 || !strings.Contains(host.save("iptables", "nat"), "MASQUERADE") {
		t.Errorf("Adopt ran %q, or there is nothing to keep", host.ran)
	}
	must(t, w.Replace(t.Context(), nil))
	if strings.Contains(host.save("iptables", "nat"), "MASQUERADE") {
		t.Error("Replace keeps what no flow needs")
	}
}

// Rules of others are no difference where ours are all there, and rules of others among ours are one.
func TestAdoptBesideOthers(t *testing.T) {
	host := newFake()
	portals := goldenPortals()
	must(t, newWriter(t, richOptions(host.run, "")).Replace(t.Context(), portals))
	h := testHost{run: host.run}
	must(t, h.AddForeign(t.Context()))
	host.ran = nil
	must(t, newWriter(t, richOptions(host.run, "")).Adopt(t.Context(), portals))
	if len(host.ran) > 0 {
		t.Errorf("Adopt ran %q", host.ran)
	}
	for _, strange := range []string{
		"*nat\n-A PORTALD-SERVICES -p tcp -j ACCEPT\nCOMMIT\n", "*filter\n-A OUTPUT -j PORTALD-GUARD\nCOMMIT\n",
		"*mangle\n:PORTALD-POSTROUTING - [0:0]\nCOMMIT\n",
	} {
		must(t, h.restore(t.Context(), ipv6(), strange))
		w := newWriter(t, richOptions(host.run, ""))
		if err := w.Adopt(t.Context(), portals); err == nil {
			t.Errorf("with %q: no difference", strange)
		} else {
			t.Log(err)
		}
		must(t, w.Replace(t.Context(), portals))
	}
}

// A Replace after an Adopt that failed keeps what flows of the earlier run need, as the first of a run does.
func TestReplaceAfterAdopt(t *testing.T) {
	host := newFake()
	must(t, newWriter(t, testOptions(host.run, "")).Replace(t.Context(),
		spreadPortals("cart", 1, inet.IPv4, pool(cluster4, ""), service.ClusterScope, service.ClusterScope)))
	w := newWriter(t, testOptions(host.run, ""))
	if err := w.Adopt(t.Context(), nil); err == nil {
		t.Error("portals too many are no difference")
	}
	must(t, w.Replace(t.Context(), nil))
	if !strings.Contains(host.save("iptables", "nat"), "MASQUERADE") {
		t.Error("what open flows need is gone")
	}
}
