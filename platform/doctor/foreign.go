package doctor

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
)

func foreignChecks() []Check {
	return []Check{{
		Name: "foreign-rules", Severity: Error, System: linux,
		What: "rules of other programs that drop, reject or translate packets to Services before portald's " +
			"rules, or after them",
		Why: "Clients time out, are refused, or reach something else. Only a note if it depends on unknown " +
			"properties of a packet, such as its interface.",
		Do:  "portald explain NAMESPACE/NAME; then change the program that writes the rule, not the rule",
		run: othersComeFirst,
	}}
}

// mostFrontends bounds the frontends that are tried: a packet to each is led through all rules.
const mostFrontends = 200

func othersComeFirst(f *Facts) result {
	all, err := f.services()
	switch {
	case err != nil:
		return unknown(err)
	case f.Rules.Err != nil:
		return unknown(f.Rules.Err)
	}
	out := f.meets(all)
	if err := f.unread(); err != nil {
		seen := fmt.Sprintf("not all rules could be read: %v", err)
		out.problems = append(out.problems, problem{seen: seen, severity: Note})
	}
	return out
}

// meets leads packets to each of some frontends through the rules, and reports each rule once.
func (f *Facts) meets(services Services) result {
	all, _ := f.proxyChains()
	kube, some, reported := f.Daemon.Value.kubeNames(all), services.frontends(mostFrontends), map[string]bool{}
	own := func(t *netfilter.Table, chain string) bool {
		ours := isPortaldName(chain) || kube && strings.HasPrefix(chain, "KUBE-")
		return ours || t.Program == netfilter.NFTables && isOwnTable(t.Name)
	}
	out := result{ok: fmt.Sprintf("no rule of others decides about packets to %d addresses of Services", len(some))}
	for _, at := range some {
		for _, p := range at.packets(f.local) {
			for _, hit := range f.Rules.Value.Meets(p, own) {
				if text := hit.String(); !reported[text] {
					reported[text] = true
					out.problems = append(out.problems, at.met(hit, p))
				}
			}
		}
	}
	return out.firstOf("rules")
}

// frontend is a frontend of a Service.
type frontend struct {
	Frontend
	of Service
}

// frontends returns some, evenly spread: no namespace comes first with many.
func (all Services) frontends(most int) (some []frontend) {
	var list []frontend
	for _, s := range all {
		for _, fe := range s.Frontends {
			list = append(list, frontend{fe, s})
		}
	}
	for i := 0; i < len(list); i += 1 + len(list)/most {
		some = append(some, list[i])
	}
	return some
}

// packets are the first ones of flows to a frontend: from elsewhere, from this node, and behind portald's rules.
func (fe frontend) packets(local func(netip.Addr) bool) []netfilter.Packet {
	p := netfilter.Packet{Protocol: inet.TCP, Destination: fe.Address, Local: local}
	for _, other := range []inet.Protocol{inet.UDP, inet.SCTP} {
		if fe.of.Protocol == other.String() {
			p.Protocol = other
		}
	}
	in, out, behind := p, p, p
	in.Hook, out.Hook, behind.Translated = netfilter.Prerouting, netfilter.Output, true
	all := []netfilter.Packet{in, out}
	if fe.ProxyPort != 0 {
		behind.Hook, behind.Destination = netfilter.Input, netip.AddrPortFrom(anyAddr(fe.Address.Addr()), fe.ProxyPort)
		return append(all, behind)
	}
	for _, to := range fe.of.Endpoints {
		if to.Addr().Is6() == fe.Address.Addr().Is6() {
			behind.Hook, behind.Destination = netfilter.Forward, to
			all = append(all, behind)
		}
	}
	return all
}

// anyAddr is the unspecified address of the family of another.
func anyAddr(a netip.Addr) netip.Addr {
	if a.Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// local tells whether an interface has the address.
func (f *Facts) local(a netip.Addr) bool { return f.deviceWith(a) != "" }

// met is a rule that a packet to the frontend meets.
func (fe frontend) met(hit netfilter.Hit, p netfilter.Packet) problem {
	service, _, _ := strings.Cut(fe.of.Name, ":")
	out := problem{
		seen: fmt.Sprintf("%s (%s in hook %s), for packets to %s %s", hit, hit.Kind, p.Hook, fe.Address, fe.of.Name),
		do:   "portald explain " + service + "; then change the program that writes the rule, not the rule",
	}
	switch {
	case !hit.Certain:
		out.severity = Note
	case hit.Kind == netfilter.Queue:
		out.severity = Warning
	}
	return out
}
