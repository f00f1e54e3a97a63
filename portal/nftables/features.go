package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// minKernel is the first that is known to have everything that rules here use; kube-proxy's nftables mode needs it too.
const minKernel = "5.13"

// feature is something that rules here use and a kernel may lack, because of its version or its configuration.
type feature struct {
	what  string // with the kernel's module
	chain nft.Chain
	sets  []*nft.Set
}

// features are all of them, with a rule that uses each.
func features(r layout.Rules) []feature {
	one := func(what, kind, at string, trial nft.Rule, sets ...*nft.Set) feature {
		name := "trial-" + kind + "-" + at
		return feature{what, nft.Chain{Name: name, Hook: nft.At(kind, at, 0), Rules: []nft.Rule{trial}}, sets}
	}
	endpoints := layout.Class{Number: 2}.NewSet(r.Family, r.Sets.Ips.Plain.Key)
	endpoints.Name = "endpoints"
	clients := r.Clients(service.PortName{Name: "trial"})
	verdicts := &nft.Set{Name: "verdicts", Key: r.Sets.Ips.Chains.Key, Verdicts: true}
	endpoint := netip.AddrPortFrom(r.Family.Loopback.Addr(), 1)
	tcp := nft.ProtocolIs(inet.TCP)
	return []feature{
		one("connection tracking (nft_ct)", "filter", "forward", nft.Rule{nft.NewConnection(), nft.Translated()}),
		one("address translation (nft_chain_nat)", "nat", "output", nft.Rule{tcp, nft.DNAT(endpoint)}),
		one("redirects by maps (nft_redir)", "nat", "prerouting",
			nft.Rule{tcp, nft.Redirect(r.Sets.Ips.Redirects)}, r.Sets.Ips.Redirects),
		one("masquerade fully-random (nft_masq)", "nat", "postrouting", nft.Rule{nft.Masquerade()}),
		one("reject (nft_reject)", "filter", "input", nft.Rule{nft.Reject()}),
		one("reject with tcp reset (nft_reject)", "filter", "input", nft.Rule{tcp, nft.RejectTCP()}),
		one("address types (nft_fib)", "filter", "prerouting", nft.Rule{nft.LocalAddress(false)}),
		one("random numbers (nft_numgen)", "filter", "output", nft.Rule{nft.Is(nft.Numgen(2, 0), 0)}),
		one("maps by random numbers", "nat", "output", nft.Rule{tcp, nft.DNATMap(endpoints)}, endpoints),
		one("verdict maps", "filter", "forward", nft.Rule{nft.VMap(verdicts)}, verdicts),
		one("dynamic sets (nft_dynset)", "filter", "output",
			nft.Rule{nft.UpdateSet(clients, r.Client(endpoint), time.Second)}, clients),
		one("counters of set elements (nft_counter)", "filter", "forward",
			nft.Rule{nft.ElementOf(r.Sets.Ips.Refused), nft.Drop()}, r.Sets.Ips.Refused),
		one("interval sets", "filter", "input",
			nft.Rule{nft.NotElementOf(r.Family.LiteralPrefixes([]netip.Prefix{r.Family.Loopback})), nft.Drop()}),
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

// check is an error that names what the kernel lacks.
func (k *kernelTable) check(r layout.Rules) error {
	names, err := missing(features(r), k.try)
	switch {
	case err == nil:
		return nil
	case len(names) == 0:
		return fmt.Errorf("try rules of %s: %w", r.Family.IP, err)
	}
	return fmt.Errorf("%s lacks for %s: %s; nftables needs Linux %s or later with these, or choose the iptables "+
		"writer (--writer, --proxy-mode)", nfnl.Kernel(), r.Family.IP, strings.Join(names, ", "), minKernel)
}

// try has the kernel validate a table with features, in a transaction that it aborts.
func (k *kernelTable) try(some ...feature) error {
	trial := nft.NewTable(k.wire.Family, k.wire.Name+"-trial")
	messages := []nfnl.Message{trial.Create()}
	created := map[string]bool{}
	for _, f := range some {
		for _, s := range f.sets {
			messages = append(messages, trial.CreateSet(s))
		}
		if !created[f.chain.Name] {
			messages = append(messages, trial.CreateChain(f.chain))
		}
		created[f.chain.Name] = true
		messages = append(messages, trial.AppendRules(f.chain)...)
	}
	return k.conn.Check(messages)
}
