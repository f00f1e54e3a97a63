package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/service"
)

// minKernel is the first that is known to have everything that rules here use; kube-proxy's nftables mode needs it too.
const minKernel = "5.13"

// feature is something that rules here use and a kernel may lack, because of its version or its configuration.
type feature struct {
	what  string // with the kernel's module
	chain chain
	sets  []*set
}

// features are all of them, with a rule that uses each.
func (r rules) features() []feature {
	one := func(what, kind, at string, trial rule, sets ...*set) feature {
		name := "trial-" + kind + "-" + at
		return feature{what, chain{name: name, hook: &hook{kind, at, 0}, rules: []rule{trial}}, sets}
	}
	endpoints := class{number: 2}.newSet(r.family, r.ips.plain.key)
	endpoints.name = "endpoints"
	clients := r.clients(service.PortName{Name: "trial"})
	verdicts := &set{name: "verdicts", key: r.ips.chains.key, verdicts: true}
	endpoint := netip.AddrPortFrom(r.loopback.Addr(), 1)
	tcp := protocolIs(inet.TCP)
	return []feature{
		one("connection tracking (nft_ct)", "filter", "forward", rule{newConnection(), translated()}),
		one("address translation (nft_chain_nat)", "nat", "output", rule{tcp, dnat{endpoint}}),
		one("redirects by maps (nft_redir)", "nat", "prerouting",
			rule{tcp, redirect{mapping{r.ips.redirects}}}, r.ips.redirects),
		one("masquerade fully-random (nft_masq)", "nat", "postrouting", rule{masquerade{}}),
		one("reject (nft_reject)", "filter", "input", rule{reject{}}),
		one("reject with tcp reset (nft_reject)", "filter", "input", rule{tcp, reject{tcp: true}}),
		one("address types (nft_fib)", "filter", "prerouting", rule{localAddress(false)}),
		one("random numbers (nft_numgen)", "filter", "output", rule{is(numgen(2, 0), 0)}),
		one("maps by random numbers", "nat", "output", rule{tcp, dnatMap{mapping{endpoints}}}, endpoints),
		one("verdict maps", "filter", "forward", rule{vmap{verdicts}}, verdicts),
		one("dynamic sets (nft_dynset)", "filter", "output",
			rule{setUpdate{clients, r.client(endpoint), time.Second}}, clients),
		one("interval sets", "filter", "input",
			rule{lookup{key: key{r.saddr()}, not: true, in: r.literalPrefixes([]netip.Prefix{r.loopback})}, drop()}),
	}
}

// missing names the features that the kernel does not have. All are tried at once, and only if that fails one by one.
func missing(all []feature, try func(...feature) error) (names []string, err error) {
	if err = try(all...); err == nil {
		return nil, nil
	}
	for _, f := range all {
		if try(f) != nil {
			names = append(names, f.what)
		}
	}
	return names, err
}

// checkFeatures is an error that names what the kernel lacks.
func (t *table) checkFeatures() error {
	names, err := missing(t.features(), t.try)
	switch {
	case err == nil:
		return nil
	case len(names) == 0:
		return fmt.Errorf("try rules of %s: %w", t.ip, err)
	}
	return fmt.Errorf("%s lacks for %s: %s; nftables needs Linux %s or later with these, or choose the iptables "+
		"writer (--writer, --proxy-mode)", nfnl.Kernel(), t.ip, strings.Join(names, ", "), minKernel)
}

// try has the kernel validate a table with features, in a transaction that it aborts.
func (t *table) try(some ...feature) error {
	trial := &table{rules: t.rules, conn: t.conn, name: t.name + "-trial"}
	messages := []nfnl.Message{trial.tableMessage(nfnl.NFT_MSG_NEWTABLE)}
	created := map[string]bool{}
	for _, f := range some {
		for _, s := range f.sets {
			messages = append(messages, trial.declare(s))
		}
		if !created[f.chain.name] {
			messages = append(messages, trial.chainMessage(f.chain))
		}
		created[f.chain.name] = true
		messages = append(messages, trial.ruleMessages(f.chain)...)
	}
	return t.conn.Check(messages)
}
