package writers

import (
	"errors"
	"slices"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/netsh"
	"github.com/portald/portald/portal/nftables"
	"github.com/portald/portald/portal/service"
)

// Render returns the rules for these portals, open proxy ports and health-check ports as text, in the syntax of the
// host's own commands for the writer that the configuration asks for. It touches no host.
func Render(
	cfg *config.Config, d Deps, portals []portal.Portal, open map[portal.ProxyPort]bool, checks map[uint16]bool,
) ([]byte, error) {
	switch names := NamesOf(cfg); cfg.Writer {
	case NFTables:
		return nftables.Render(nftablesOptions(cfg, names, d), portals, open)
	case IPVS:
		servers, err := ipvs.Render(ipvsOptions(cfg, names, d), portals)
		others := slices.DeleteFunc(slices.Clone(portals), isSpread)
		rules, err2 := iptables.Render(rulesBesideIPVS(cfg, names, d), others, open, checks)
		return append(servers, rules...), errors.Join(err, err2)
	case Netsh:
		return netsh.Render(netshOptions(cfg, d), portals)
	default:
		return iptables.Render(iptablesOptions(cfg, names, d), portals, open, checks)
	}
}

// isSpread tells whether IPVS itself serves a portal, and not the iptables rules beside it.
func isSpread(p portal.Portal) bool {
	_, ok := p.Target.(portal.Spread)
	return ok
}

// Offers tells which algorithms portals that spread may have by the writer of a configuration, on a host that has
// everything. Where the configuration leaves the variant of iptables open, it is nft.
func Offers(cfg *config.Config) func(service.Algorithm) bool {
	switch cfg.Writer {
	case NFTables:
		return nftables.Offers
	case IPVS:
		return ipvs.Offers
	case Netsh:
		return func(service.Algorithm) bool { return false }
	}
	return func(a service.Algorithm) bool { return iptables.Offers(cfg.IPTablesVariant == "legacy", a) }
}
