package nftables

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

// Whatever others change of our tables is a difference, other tables are not.
func TestAdoptLooksAtOursAlone(t *testing.T) {
	needNFT(t)
	netnstest.Enter(t)
	portals := append(portaltest.SitePortals(), allSpreads()...)
	if err := newWriter(t, richOptions()).Replace(t.Context(), portals); err != nil {
		t.Fatal(err)
	}
	for change, bad := range map[string]bool{
		"":                                  false,
		"add table ip others":               false,
		"add rule ip portald guard counter": true,
		"insert rule ip portald nat-output return":                        true,
		"flush chain ip6 portald services":                                true,
		"add chain ip portald nat-output { policy drop; }":                true,
		"add chain ip portald more":                                       true,
		"add set ip6 portald more { type ipv4_addr; }":                    true,
		"add element ip portald cluster-ips { 10.0.0.1 }":                 true,
		"delete element ip portald redirect-ips { 10.96.0.1 . tcp . 80 }": true,
		"add table ip portald { flags dormant; }":                         true,
		"delete table ip6 portald":                                        true,
	} {
		accepted(t, change+"\n", "-f", "-")
		w := newWriter(t, richOptions())
		err := w.Adopt(t.Context(), portals)
		if (err != nil) != bad {
			t.Errorf("%q: %v", change, err)
		}
		if err == nil {
			continue
		}
		t.Logf("%q: %v", change, err)
		if err := errors.Join(w.Replace(t.Context(), portals), w.Audit(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// A rule of other options is another rule, also where the difference is in a set of its own.
func TestAdoptComparesOptions(t *testing.T) {
	netnstest.Enter(t)
	portals := append(redirects(), allSpreads()...)
	if err := newWriter(t, richOptions()).Replace(t.Context(), portals); err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(*Options){
		"mark":       func(o *Options) { o.Mark = 0x2000 },
		"masquerade": func(o *Options) { o.Masquerade.Mark = 0x10000 },
		"dials":      func(o *Options) { o.Dials = portal.DefaultDials },
		"pods":       func(o *Options) { o.LocalDetector.Interface = "cni1" },
		"node ports": func(o *Options) { o.NodePortAddresses = prefixes("192.0.2.0/24") },
		"ranges":     func(o *Options) { o.ServiceCIDRs = nil },
	} {
		o := richOptions()
		edit(&o)
		if err := newWriter(t, o).Adopt(t.Context(), portals); err == nil {
			t.Errorf("rules with other %s are adopted", what)
		}
	}
	narrow := allSpreads()
	for i, p := range narrow {
		if to := p.Target.(portal.Spread); len(to.Pool.SourceRanges) > 0 {
			pool := *to.Pool
			pool.SourceRanges = pool.SourceRanges[1:]
			to.Pool = &pool
			narrow[i].Target = to
		}
	}
	if err := newWriter(t, richOptions()).Adopt(t.Context(), append(redirects(), narrow...)); err == nil {
		t.Error("rules with other source ranges are adopted")
	}
	if err := newWriter(t, richOptions()).Adopt(t.Context(), portals); err != nil {
		t.Error(err)
	}
}

// Clients that packets added to affinity sets are no difference, unless their endpoint is gone.
func TestAdoptKeepsClients(t *testing.T) {
	netnstest.Enter(t)
	endpoint := netip.MustParseAddrPort("10.244.0.2:8080")
	p := portal.Portal{Frontend: frontend("10.96.0.1", 80, inet.TCP), Kind: service.ClusterIP,
		Owner: service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}}
	p.Target = portal.Spread{Pool: &portal.Pool{Cluster: []portal.Endpoint{{Addr: endpoint}}, Affinity: 1e9}}
	w := newWriter(t, testOptions())
	if err := w.Replace(t.Context(), []portal.Portal{p}); err != nil {
		t.Fatal(err)
	}
	clients := w.tables[0].rules.Clients(p.Owner)
	for _, test := range []struct {
		slot uint32
		bad  bool
	}{{layout.EndpointID(endpoint), false}, {layout.EndpointID(endpoint) + 1, true}} {
		e := nft.Element{Source: netip.MustParseAddr("192.0.2.2"), Slot: test.slot}
		add := w.tables[0].kernel.wire.AddElements(clients, []nft.SetElement{{Entry: nft.Entry{Set: clients, Element: e}}})
		if err := w.tables[0].kernel.conn.Commit(t.Context(), oneByOne(add)); err != nil {
			t.Fatal(err)
		}
		next := newWriter(t, testOptions())
		if err := next.Adopt(t.Context(), []portal.Portal{p}); (err != nil) != test.bad {
			t.Errorf("slot %d: %v", test.slot, err)
		} else if err == nil {
			err = errors.Join(next.Update(t.Context(), nil), next.Audit(t.Context()))
			if err != nil {
				t.Error(err)
			}
		}
	}
}
