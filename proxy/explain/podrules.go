package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// OfEndpoint tells whether an endpoint is asked for, by its pod or its address, in place of a Service.
func (q Query) OfEndpoint() bool { return q.Pod != "" || q.Endpoint.IsValid() }

// HasRules tells whether a report shows rules of a service port: not for an endpoint that is none any more.
func (q Query) HasRules(p *service.Port) bool {
	return !q.OfEndpoint() || slices.ContainsFunc(p.Endpoints, q.means)
}

// Portals returns those of a service port's portals whose rules a report shows: for an endpoint those of its families.
func (q Query) Portals(p *service.Port, all []portal.Portal) []portal.Portal {
	if !q.OfEndpoint() {
		return all
	}
	wanted := map[inet.Family]bool{}
	for _, x := range p.Endpoints {
		if q.means(x) {
			wanted[inet.FamilyOf(x.Addr.Addr())] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p portal.Portal) bool {
		return !wanted[inet.FamilyOf(p.Frontend.Addr.Addr())]
	})
}

// installed adds rules, by the place where they are.
func (b *builder) installed(rules []portal.Installed) {
	place := ""
	for _, r := range rules {
		if r.Place != place {
			place = r.Place
			b.add(Fact, nil, "%s", place)
		}
		last := &b.report.Sections[len(b.report.Sections)-1]
		line := &last.Lines[len(last.Lines)-1]
		line.Details = append(line.Details, r.Text)
	}
}

// podRules are the rules of portald that the traffic of one endpoint meets: to it, and from it to its own Service.
type podRules struct {
	*builder
	*Subject
	ends ends
	own  []service.Endpoint          // the one that was asked for, in each family
	gets func(service.Endpoint) bool // new connections
}

// newPodRules returns those of the endpoints that are the one asked for. Gets tells whether one gets new connections.
func newPodRules(b *builder, s *Subject, is, gets func(service.Endpoint) bool) podRules {
	r := podRules{builder: b, Subject: s, ends: ends{map[netip.AddrPort]bool{}, map[netip.Addr]bool{}}, gets: gets}
	for _, x := range s.Port.Endpoints {
		r.ends.put(x.Addr, is(x))
		if is(x) {
			r.own = append(r.own, x)
		}
	}
	if s.Applied == nil {
		return r
	}
	for _, p := range s.Applied.Claims {
		if to, spreads := p.Target.(portal.Spread); spreads {
			for _, x := range slices.Concat(to.Pool.Cluster, to.Pool.Node) {
				r.ends.put(x.Addr, false)
			}
		}
	}
	for _, x := range s.Port.Exposures {
		r.ends.ignore(x.Frontend.Addr.Addr())
	}
	return r
}

// list adds the rules that lead to the endpoint, and those that its own connections meet first.
func (r podRules) list() {
	if !r.Shows || r.Applied == nil || len(r.own) == 0 {
		return
	}
	rules, missing := r.ends.only(r.Shown)
	var leading, entering, returning []portal.Installed
	leads := 0
	for _, rule := range rules {
		m := r.ends.in(rule.Text)
		if m.own {
			leads++
		}
		if m.itself {
			returning = append(returning, rule)
			continue
		}
		leading = append(leading, rule)
		if strings.Contains(strings.ToLower(rule.Place+rule.Text), "prerouting") {
			entering = append(entering, rule)
		}
	}
	dials := r.dials()
	r.section("Rules of portald that lead to it, as the host has them now")
	if leads > 0 || len(dials) > 0 {
		r.installed(leading)
	}
	for _, text := range dials {
		r.add(Fact, nil, "%s", text)
	}
	r.judge(leads, len(dials) > 0, missing)
	if !r.own[0].Local || len(entering)+len(returning) == 0 {
		return
	}
	r.section("Rules of portald that its own connections to " + r.label() + " meet")
	if r.installed(entering); len(returning) > 0 {
		r.installed(returning)
		r.add(Fact, nil, "connections that come back to it are masqueraded: it would answer itself otherwise")
	}
}

// judge says whether what shall lead to the endpoint does.
func (r podRules) judge(leads int, listens bool, missing []string) {
	for _, m := range missing {
		r.add(Wrong, nil, "missing: %s", m)
	}
	switch {
	case len(missing) > 0:
		r.find(Wrong, "portald doctor", "Rules that lead to %s as an endpoint of %s are missing on this host: others "+
			"removed or changed them, and portald writes them anew at its next audit.", r.name(r.own[0].Addr), r.label())
	case r.ShownErr != nil:
		r.add(Doubt, strings.Split(r.ShownErr.Error(), "\n"), "not all could be read")
		r.find(Doubt, "portald doctor", "The rules of %s could not be read.", r.label())
	case leads == 0 && !listens:
		r.add(Fact, nil, "none: it gets no new connections")
	default:
		r.add(Good, nil, "nothing is missing")
	}
}

// dials says how portald's listeners lead to the endpoint.
func (r podRules) dials() (all []string) {
	for _, p := range r.Applied.OwnPortals() {
		to, redirects := p.Target.(portal.Redirect)
		if !redirects || to.Port == 0 {
			continue
		}
		for _, x := range r.own {
			if inet.FamilyOf(p.Frontend.Addr.Addr()) != inet.FamilyOf(x.Addr.Addr()) {
				continue
			}
			does, now := "dials", ""
			if !r.gets(x) {
				does, now = "does not dial", " for new connections now"
			}
			text := fmt.Sprintf("portald listens at port %d, and %s %s%s", to.Port, does, x.Addr, now)
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// ends are the endpoints that rules of a service port may name: whether each is the one asked for. Where an address is
// that of several, the one asked for counts.
type ends struct {
	ports map[netip.AddrPort]bool
	hosts map[netip.Addr]bool
}

func (e ends) put(at netip.AddrPort, own bool) {
	e.ports[at] = e.ports[at] || own
	e.hosts[at.Addr()] = e.hosts[at.Addr()] || own
}

// ignore has an address without a port be that of no endpoint: a frontend has it too.
func (e ends) ignore(at netip.Addr) { delete(e.hosts, at) }

// mention is which endpoints a rule names.
type mention struct {
	own    bool // the one asked for, with its port
	itself bool // its address alone: what is for its connections to itself
	other  bool // another
}

// in finds the endpoints in a rule: ADDRESS:PORT, ADDRESS/32 or ADDRESS as iptables, ipvsadm and ipset write them, or
// ADDRESS . PORT as nft does.
func (e ends) in(rule string) (m mention) {
	words := strings.FieldsFunc(rule, func(c rune) bool { return strings.ContainsRune(" ,{}()", c) })
	for i, word := range words {
		at, err := netip.ParseAddrPort(word)
		if err != nil {
			prefix, err := netip.ParsePrefix(word)
			addr := prefix.Addr()
			if err != nil || !prefix.IsSingleIP() {
				addr, _ = netip.ParseAddr(word)
			}
			if !addr.IsValid() {
				continue
			}
			at = netip.AddrPortFrom(addr, portBehind(words[i+1:]))
		}
		own, known := e.ports[at]
		if at.Port() == 0 {
			own, known = e.hosts[at.Addr()]
		}
		switch {
		case !known:
		case !own:
			m.other = true
		case at.Port() == 0:
			m.itself = true
		default:
			m.own = true
		}
	}
	return m
}

// portBehind is the port that nft writes behind an address, 0 if there is none.
func portBehind(words []string) uint16 {
	if len(words) < 2 || words[0] != "." {
		return 0
	}
	port, _ := strconv.ParseUint(words[1], 10, 16)
	return uint16(port)
}

// only leaves out what is of other endpoints alone: their rules and elements, chains of iptables of which nothing
// remains, and the rules that lead there.
func (e ends) only(all portal.Shown) (rules []portal.Installed, missing []string) {
	left := map[string]int{} // rules, by the chain that they are in
	of := func(text string) bool {
		m := e.in(text)
		return m.other && !m.own && !m.itself
	}
	empty := func(text string) bool {
		n, listed := left[wordBehind("-j", text)]
		return listed && n == 0
	}
	for _, r := range all.Rules {
		left[wordBehind("-A", r.Text)] += 0
		if !of(r.Text) {
			rules = append(rules, r)
			left[wordBehind("-A", r.Text)]++
		}
	}
	for more := true; more; {
		before := len(rules)
		rules = slices.DeleteFunc(rules, func(r portal.Installed) bool {
			gone := empty(r.Text)
			if gone {
				left[wordBehind("-A", r.Text)]--
			}
			return gone
		})
		more = len(rules) < before
	}
	missing = slices.DeleteFunc(slices.Clone(all.Missing), func(text string) bool { return of(text) || empty(text) })
	return rules, missing
}

// wordBehind is the word behind an option, empty if there is none.
func wordBehind(option, rule string) string {
	words := strings.Fields(rule)
	if i := slices.Index(words, option); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}
