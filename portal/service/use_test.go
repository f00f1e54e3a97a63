package service

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/platform/inet"
)

// Why an endpoint is not used follows from it, from the others, and from the policies of its Service.
func TestUses(t *testing.T) {
	exposed := func(addr string, kind Kind) Exposure {
		return Exposure{Frontend: Frontend{Addr: netip.MustParseAddrPort(addr), Protocol: inet.TCP}, Kind: kind}
	}
	cluster, external := exposed("10.96.0.1:80", ClusterIP), exposed("203.0.113.1:80", LoadBalancerIP)
	six := exposed("[fd00::9]:80", ClusterIP)
	for _, c := range []struct {
		name      string
		exposures []Exposure
		internal  bool // traffic policy Local
		outside   bool
		traits    []string
		want      []Use
	}{
		{"all but the ready ones", []Exposure{cluster}, false, false,
			[]string{"RS", "ST", "", "RSD"}, []Use{Used, Terminating, NotReady, NotHinted}},
		{"none is ready", []Exposure{cluster}, false, false, []string{"ST", "T", ""}, []Use{Used, Terminating, NotReady}},
		{"policies leave the node's", []Exposure{cluster}, true, false, []string{"RS", "RSL"}, []Use{OtherNode, Used}},
		{"an external policy leaves all to clients inside", []Exposure{cluster, external}, true, true,
			[]string{"RS", "RSL"}, []Use{Used, Used}},
		{"hints hold for the cluster alone", []Exposure{cluster, external}, false, true,
			[]string{"RS", "RSLD", "RSD"}, []Use{Used, Used, NotHinted}},
		{"no frontend of the family", []Exposure{six}, false, false, []string{"RS", ""}, []Use{OtherFamily, OtherFamily}},
		{"no frontend", nil, false, false, []string{"RS"}, []Use{OtherFamily}},
	} {
		p := &Port{Exposures: c.exposures, InternalLocal: c.internal, ExternalLocal: c.outside}
		for i, traits := range c.traits {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)
			p.Endpoints = append(p.Endpoints, endpoint(at.String(), traits))
		}
		if got := p.Uses(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
