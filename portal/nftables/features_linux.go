package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// needed is the first kernel that is known to have all that rules here use; kube-proxy's nftables mode needs it too.
const needed = "5.13"

// feature is something that rules here use and a kernel may lack: it is too old, or was built without.
type feature struct {
	what  string // as its configuration and modules call it
	chain chain
	sets  []*set
}

// features are all, each by itself.
func (r rules) features() []feature {
	one := func(what, kind, at string, about rule, sets ...*set) feature {
		return feature{what, chain{name: "trial-" + kind + "-" + at, hook: &hook{kind, at, 0}, rules: []rule{about}}, sets}
	}
	class := &set{name: "endpoints", key: key{byDestination, byProtocol, byPort, bySlot}, slots: 2, data: endpoints}
	clients := clientsID{service.PortName{Name: "trial"}}.set()
	verdicts := &set{name: "verdicts", key: key{byDestination, byProtocol, byPort}, data: verdicts}
	endpoint := netip.AddrPortFrom(r.loopback.Addr(), 1)
	ranges := []netip.Prefix{r.loopback}
	tcp := protocols{service.TCP}
	return []feature{
		one("connection tracking (nft_ct)", "filter", "forward", rule{newFlow{}, translated{}}),
		one("translation (nft_chain_nat)", "nat", "output", rule{tcp, spread{endpoint}}),
		one("redirects (nft_redir) by maps", "nat", "prerouting", rule{tcp, redirect{r.ips.redirects, netip.Addr{}}}, r.ips.redirects),
		one("masquerading fully at random (nft_masq)", "nat", "postrouting", rule{masquerade{}}),
		one("refusals (nft_reject)", "filter", "input", rule{reject{}}),
		one("resets (nft_reject)", "filter", "input", rule{tcp, reject{tcp: true}}),
		one("types of addresses (nft_fib)", "filter", "prerouting", rule{local{}}),
		one("random numbers (nft_numgen)", "filter", "output", rule{chance{2}}),
		one("maps of endpoints by number", "nat", "output", rule{tcp, spreadBy{class}}, class),
		one("maps of verdicts", "filter", "forward", rule{dispatch{verdicts}}, verdicts),
		one("sets that packets change (nft_dynset)", "filter", "output", rule{remember{bound{clients, 1}, time.Second}}, clients),
		one("sets of ranges", "filter", "input", rule{outside(ranges), drop()}),
	}
}

// lacks are what the kernel has not of these, all of which are tried at once before each is.
func lacks(all []feature, try func(...feature) error) (lacking []string, err error) {
	if err = try(all...); err == nil {
		return nil, nil
	}
	for _, f := range all {
		if try(f) != nil {
			lacking = append(lacking, f.what)
		}
	}
	return lacking, err
}

// capable is an error that says what the kernel lacks.
func (t *table) capable() error {
	lacking, err := lacks(t.features(), t.try)
	switch {
	case err == nil:
		return nil
	case len(lacking) == 0:
		return fmt.Errorf("try rules of %s: %w", t.family.name, err)
	}
	return fmt.Errorf("%s lacks for %s: %s; nftables takes Linux %s or later with these, or write rules with iptables (--writer, --proxy-mode)",
		kernelName(), t.family.name, strings.Join(lacking, ", "), needed)
}

// try has the kernel check a table with these features, in a transaction without an end, which it takes back.
func (t *table) try(some ...feature) error {
	trial := &table{rules: t.rules, conn: t.conn, name: t.name + "-trial"}
	messages := []netlink.Message{trial.message(unix.NFT_MSG_NEWTABLE, netlink.Create, unix.NFTA_TABLE_NAME, "")}
	made := map[string]bool{}
	for _, f := range some {
		for _, s := range f.sets {
			messages = append(messages, trial.declare(trial.name, s))
		}
		if !made[f.chain.name] {
			messages = append(messages, trial.chainMessage(f.chain))
		}
		made[f.chain.name] = true
		messages = append(messages, trial.body(f.chain)[1:]...) // without emptying the chain first
	}
	return t.conn.check(messages)
}

func kernelName() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "this kernel"
	}
	return "Linux " + unix.ByteSliceToString(name.Release[:])
}
