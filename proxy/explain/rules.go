package explain

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// rules reports the rules that packets meet on their way to the endpoints: rules of others before portald's, portald's,
// and rules of others behind them.
func (e *explained) rules() {
	if e.node.Rules != nil {
		e.foreign()
	}
	if !e.Shows || e.Applied == nil {
		return
	}
	e.section("Rules of portald, as the host has them now")
	e.installed(e.Shown.Rules)
	for _, m := range e.Shown.Missing {
		e.add(Wrong, nil, "missing: %s", m)
	}
	switch {
	case len(e.Shown.Missing) > 0:
		e.find(Wrong, "portald doctor", "Rules of %s are missing on this host: others removed or changed them, and portald "+
			"writes them anew at its next audit.", e.label())
	case e.ShownErr != nil:
		e.add(Doubt, strings.Split(e.ShownErr.Error(), "\n"), "not all could be read")
		e.find(Doubt, "portald doctor", "Not all rules of %s could be read.", e.label())
	case len(e.Shown.Rules) == 0 && len(e.portals()) > 0:
		e.add(Doubt, nil, "none were found")
	case len(e.Shown.Rules) > 0:
		e.add(Good, nil, "nothing is missing")
	}
}

// ofEndpoint reports the rules that the traffic of one endpoint meets, if one was asked for.
func (e *explained) ofEndpoint() {
	if !e.query.OfEndpoint() || e.asksForFormer() {
		return
	}
	if e.node.Rules != nil {
		e.foreign()
	}
	audiences := e.audiences()
	gets := func(x service.Endpoint) bool {
		return slices.ContainsFunc(audiences, func(a audience) bool {
			why := e.why(a, x)
			return why == Used || why == UsedDraining
		})
	}
	newPodRules(e.builder, e.Subject, e.query.means, gets).list()
}

// portals returns the portals to explain that belong to this service port.
func (e *explained) portals() (out []portal.Portal) {
	if e.Applied == nil {
		return nil
	}
	for _, x := range e.exposures() {
		if p := e.Applied.portal(x.Frontend); p != nil && e.Applied.Holders[x.Frontend] == e.Port.Name {
			out = append(out, *p)
		}
	}
	return out
}

// foreign adds the rules of others that decide about packets to the frontends, and about what portald makes of them.
func (e *explained) foreign() {
	e.section("Rules of other programs")
	for _, text := range e.node.Rules.Unread {
		e.add(Doubt, nil, "not read: %s", text)
	}
	seen := map[string]bool{}
	meet := func(when string, packets []netfilter.Packet) {
		for _, p := range packets {
			for _, h := range e.node.Rules.Meets(p, e.node.Own) {
				if text := h.String(); !seen[text] {
					seen[text] = true
					e.hit(when, p, h)
				}
			}
		}
	}
	for _, p := range e.portals() {
		meet("before portald's rules", e.arrivals(p))
		meet("behind portald's rules", e.departures(p))
	}
	if len(seen) == 0 {
		e.add(Good, nil, "none of those that could be read decides about its packets")
	}
}

// hit adds a rule of others that a packet meets.
func (e *explained) hit(when string, p netfilter.Packet, h netfilter.Hit) {
	does := map[netfilter.Kind]string{
		netfilter.Accept:    "ends the lookup before portald's rules",
		netfilter.Drop:      "drops",
		netfilter.Reject:    "rejects",
		netfilter.Queue:     "hands to a program",
		netfilter.Translate: "sends elsewhere",
		netfilter.Divert:    "hands to a local socket",
		netfilter.Untrack:   "keeps from connection tracking, and so from portald's rules,",
	}[h.Kind]
	status, may := Wrong, ""
	if !h.Certain {
		status, may = Doubt, "may match, and "
	}
	e.add(status, []string{h.String()}, "%s, at %s: %s%s packets to %s", when, p.Hook, may, does, destination(p))
	sentence := "A rule of another program %s packets to %s: %s."
	if !h.Certain {
		sentence = "A rule of another program may match, and %s packets to %s: %s."
	}
	e.find(status, listing(h.Chain), sentence, does, e.label(), h)
}

// listing is the command that lists a chain.
func listing(c *netfilter.Chain) string {
	t := c.Table
	if t.Program == netfilter.NFTables {
		return "nft -a list chain " + t.Family + " " + t.Name + " " + c.Name
	}
	return strings.Replace(string(t.Program), "ip", t.Family, 1) + " -t " + t.Name + " -S " + c.Name
}

func destination(p netfilter.Packet) string {
	if p.Destination.Addr().IsUnspecified() {
		return "port " + portText(service.Frontend{Addr: p.Destination}) + " of this host"
	}
	return p.Destination.String()
}

// packet is the first of a flow from the client that was asked for.
func (e *explained) packet(hook netfilter.Hook, proto inet.Protocol, to netip.AddrPort) netfilter.Packet {
	return netfilter.Packet{Hook: hook, Protocol: proto, Source: e.query.From, Destination: to, Local: e.node.Local}
}

// arrivals are the packets of clients as they come to portald's rules: from the network, and of this host's programs.
func (e *explained) arrivals(p portal.Portal) (out []netfilter.Packet) {
	for _, at := range e.dialled(p) {
		out = append(out, e.arrivalsAt(p, at)...)
	}
	return out
}

// dialled returns the addresses of a frontend: for a NodePort the host's.
func (e *explained) dialled(p portal.Portal) (out []netip.AddrPort) {
	at := p.Frontend.Addr
	if !at.Addr().IsUnspecified() {
		return []netip.AddrPort{at}
	}
	if dialled := e.query.Address; dialled.Port() == at.Port() && dialled.IsValid() {
		return []netip.AddrPort{dialled}
	}
	for _, addr := range e.node.NodePorts {
		if inet.FamilyOf(addr) == inet.FamilyOf(at.Addr()) && len(out) < mostEndpoints {
			out = append(out, netip.AddrPortFrom(addr, at.Port()))
		}
	}
	if out == nil {
		return []netip.AddrPort{at}
	}
	return out
}

func (e *explained) arrivalsAt(p portal.Portal, at netip.AddrPort) (out []netfilter.Packet) {
	proto := p.Frontend.Protocol
	for _, hook := range []netfilter.Hook{netfilter.Prerouting, netfilter.Output} {
		if e.query.From.IsValid() && e.here() != (hook == netfilter.Output) {
			continue
		}
		out = append(out, e.packet(hook, proto, at))
	}
	if _, spreads := p.Target.(portal.Spread); spreads && e.node.Writer == "ipvs" {
		out = append(out, e.packet(netfilter.Input, proto, at)) // where IPVS takes them
	}
	return out
}

// mostEndpoints bounds for how many endpoints the rules of others are looked through.
const mostEndpoints = 16

// departures are the packets behind portald's rules: to its listener and from there to endpoints, or to endpoints.
func (e *explained) departures(p portal.Portal) (out []netfilter.Packet) {
	proto, family := p.Frontend.Protocol, inet.FamilyOf(p.Frontend.Addr.Addr())
	switch to := p.Target.(type) {
	case portal.Redirect:
		if to.Port != 0 {
			in := e.packet(netfilter.Input, proto, netip.AddrPortFrom(family.Unspecified(), to.Port))
			in.Translated = true
			out = append(out, in)
		}
		for _, at := range e.some(family) {
			dial := netfilter.Packet{Hook: netfilter.Output, Protocol: proto, Destination: at, Local: e.node.Local}
			behind := dial
			behind.Behind = true
			out = append(out, dial, behind)
		}
	case portal.Spread:
		for _, at := range e.some(family) {
			out = append(out, e.forwarded(proto, at))
		}
	}
	return out
}

// forwarded is a packet that the kernel has sent to an endpoint.
func (e *explained) forwarded(proto inet.Protocol, at netip.AddrPort) netfilter.Packet {
	hook := netfilter.Forward
	switch {
	case e.node.Local != nil && e.node.Local(at.Addr()):
		hook = netfilter.Input
	case e.here():
		hook = netfilter.Output
	}
	p := e.packet(hook, proto, at)
	p.Behind, p.Translated = true, true
	return p
}

// some are endpoints that may be used, a few of them.
func (e *explained) some(family inet.Family) (out []netip.AddrPort) {
	for _, scope := range []service.Scope{service.ClusterScope, service.NodeScope} {
		for _, x := range e.Port.Usable(family, scope) {
			if e.query.means(x) && !slices.Contains(out, x.Addr) && len(out) < mostEndpoints {
				out = append(out, x.Addr)
			}
		}
	}
	return out
}
