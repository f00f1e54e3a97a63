package writer

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

func TestPortalsThatNoRuleCanExpress(t *testing.T) {
	at := func(addr string) func(*portal.Portal) {
		return func(p *portal.Portal) { p.Frontend.Addr = netip.MustParseAddrPort(addr) }
	}
	other := &portal.Pool{Cluster: []portal.Endpoint{{Addr: netip.MustParseAddrPort("[fd00::1]:80")}}}
	for what, change := range map[string]func(*portal.Portal){
		"IPv4-mapped address":       at("[::ffff:1.2.3.4]:80"),
		"zone":                      at("[fe80::1%eth0]:80"),
		"port 0":                    at("10.0.0.1:0"),
		"no address":                func(p *portal.Portal) { p.Frontend.Addr = netip.AddrPort{} },
		"unspecified address":       at("0.0.0.0:80"),
		"NodePort at an address":    func(p *portal.Portal) { p.Kind = service.NodePort },
		"protocol":                  func(p *portal.Portal) { p.Frontend.Protocol = 1 },
		"redirected SCTP":           func(p *portal.Portal) { p.Frontend.Protocol = inet.SCTP },
		"port of no listener":       func(p *portal.Portal) { p.Target = portal.Redirect{Port: 20010} },
		"no target":                 func(p *portal.Portal) { p.Target = nil },
		"no pool":                   func(p *portal.Portal) { p.Target = portal.Spread{} },
		"endpoints of other family": func(p *portal.Portal) { p.Target = portal.Spread{Pool: other} },
		"endpoints of other protocol": func(p *portal.Portal) {
			p.Owner.Protocol, p.Target = inet.UDP, portal.Spread{Pool: &portal.Pool{}}
		},
	} {
		p := redirect("10.96.0.1:80", 20000)
		p.Owner = service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}
		change(&p)
		check := Limits{inet.PortRange{First: 20000, Last: 20009}}.Check
		if err := check(p); err == nil || !strings.Contains(err.Error(), p.Owner.String()) {
			t.Errorf("%s: error %v, want one that names the owner", what, err)
		}
		if valid, err := Valid([]portal.Portal{p}, check); err == nil || len(valid) > 0 {
			t.Errorf("%s: a Replace takes it", what)
		}
		changes, err := ValidChanges([]portal.Change{{Frontend: p.Frontend, Portal: &p}}, check)
		if err == nil || changes[0].Portal != nil {
			t.Errorf("%s: an Update takes it", what)
		}
	}
}
