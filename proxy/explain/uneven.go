package explain

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// Load is uneven if an endpoint has that many times the connections of an even share, or so little of it, and differs
// by so many connections, and by so many standard deviations of a choice at random.
const (
	fullShare   = 1.5
	emptyShare  = 0.5
	leastUneven = 10
	deviations  = 3
)

// led is a connection that leads to an endpoint.
type led struct {
	to     netip.AddrPort
	client netip.Addr
	kind   service.Kind // of the frontend, of connections of userspace mode
	start  time.Time    // zero: it is not known
}

const unevenTitle = "Uneven load"

// Notes are what may surprise though nothing stands in the way: an uneven load, and why.
func (r *Report) Notes() (all []Line) {
	for i := range r.Sections {
		if strings.HasSuffix(r.Sections[i].Title, unevenTitle) {
			all = append(all, r.Sections[i].Lines...)
		}
	}
	return all
}

// load is how many connections the endpoints of a family have that may be used.
type load struct {
	*explained
	endpoints   []service.Endpoint
	full, empty service.Endpoint // with the most, and the fewest
	all         []led
	of          map[netip.AddrPort]int
}

// uneven says why endpoints have clearly more or fewer connections than others, as far as one can know, and what to
// set. It is a note: nothing stands in the way.
func (e *explained) uneven() {
	if e.query.Pod != "" || e.query.Endpoint.IsValid() || e.query.From.IsValid() || len(e.query.Frontends) > 0 {
		return // what is looked at is not all
	}
	for _, family := range inet.Families() {
		all := e.loaded(family)
		open := e.loadOf(all, e.openLed())
		recent := e.loadOf(all, e.recentLed(all))
		switch {
		case open.isUneven():
			open.note("open", len(recent.all) >= 2*leastUneven && !recent.isUneven())
		case recent.isUneven():
			recent.note("recent", false)
		}
	}
}

// loaded are the endpoints of a family that some clients get, ejected and drained ones too.
func (e *explained) loaded(family inet.Family) (all []service.Endpoint) {
	for _, a := range e.audiences() {
		if a.family != family {
			continue
		}
		for _, x := range e.Port.Usable(family, a.scope) {
			if !slices.ContainsFunc(all, func(o service.Endpoint) bool { return o.Addr == x.Addr }) {
				all = append(all, x)
			}
		}
	}
	return all
}

// byKernel tells whether the kernel carries new connections.
func (e *explained) byKernel() bool {
	return e.Port.Mode.Or(e.node.Mode) == service.ModeKernel
}

// openLed are the connections that are open.
func (e *explained) openLed() (all []led) {
	if !e.byKernel() {
		for i := range e.Live {
			l := &e.Live[i]
			all = append(all, led{l.Endpoint.Addr, l.Client.Addr().Unmap(), l.Portal, l.Start})
		}
		return all
	}
	for _, f := range e.Flows {
		if f.Protocol == inet.TCP && f.State != flows.Established {
			continue
		}
		l := led{to: f.Replier, client: f.From.Addr()}
		if f.Start > 0 {
			l.start = time.Unix(0, f.Start)
		}
		all = append(all, l)
	}
	return all
}

// recentLed are the connections that ended lately, of those that began when all endpoints were there.
func (e *explained) recentLed(among []service.Endpoint) (all []led) {
	if e.Port.Policy.Or(e.node.Policy).KernelRecords != service.RecordsAll && e.byKernel() {
		return nil // there are none, or of failures alone
	}
	past := history{e.Port.Name, e.Changes}
	after := past.changed()
	for _, x := range among {
		if since := e.came(x.Addr); since.After(after) {
			after = since
		}
	}
	for _, r := range e.Records {
		reached := r.Proxy().IsValid() || r.CarriedBy == record.Kernel && r.Endpoint.Addr.IsValid()
		if reached && r.Start.After(after) && e.now.Sub(r.Start.Add(r.Duration)) <= recentTime {
			all = append(all, led{r.Endpoint.Addr, r.Client.Addr().Unmap(), r.Portal, r.Start})
		}
	}
	return all
}

// came is since when an endpoint may get connections; zero: it is not known, or since this portald began.
func (e *explained) came(at netip.AddrPort) (since time.Time) {
	for _, c := range e.Changes {
		if c.Endpoint != at || c.Service != e.Port.Name {
			continue
		}
		switch c.Kind {
		case changes.EndpointAdded, changes.EndpointReady, changes.EndpointBack, changes.EndpointUndrained:
			since = c.Time
		}
	}
	return since
}

func (e *explained) loadOf(endpoints []service.Endpoint, all []led) *load {
	l := &load{explained: e, endpoints: endpoints, of: map[netip.AddrPort]int{}}
	for _, c := range all {
		if slices.ContainsFunc(endpoints, func(x service.Endpoint) bool { return x.Addr == c.to }) {
			l.all = append(l.all, c)
			l.of[c.to]++
		}
	}
	if len(endpoints) > 0 {
		by := func(a, b service.Endpoint) int { return l.of[a.Addr] - l.of[b.Addr] }
		l.full, l.empty = slices.MaxFunc(endpoints, by), slices.MinFunc(endpoints, by)
	}
	return l
}

// even is an even share.
func (l *load) even() float64 { return float64(len(l.all)) / float64(len(l.endpoints)) }

func (l *load) isUneven() bool {
	if len(l.endpoints) < 2 {
		return false
	}
	even, most, fewest := l.even(), float64(l.of[l.full.Addr]), float64(l.of[l.empty.Addr])
	least := max(leastUneven, deviations*math.Sqrt(even))
	return most >= fullShare*even && most-even >= least || fewest <= emptyShare*even && even-fewest >= least
}

// note says that load is uneven, why, and what to set. Lasting: recent connections are spread evenly, so that it is the
// open ones that last longer.
func (l *load) note(which string, lasting bool) {
	l.section(unevenTitle)
	noun := "connection"
	if l.Port.Name.Protocol == inet.UDP {
		noun = "session"
	}
	l.add(Fact, nil, "%s has %d of the %s, %s has %d, and an even share is %.0f", l.name(l.full.Addr), l.of[l.full.Addr],
		count(len(l.all), which+" "+noun), l.name(l.empty.Addr), l.of[l.empty.Addr], l.even())
	known := false
	for _, why := range []func() bool{l.leftOut, l.local, l.bound, l.hashed, l.older, l.starting} {
		if why() {
			known = true
		}
	}
	if known {
		return
	}
	if lasting {
		l.add(Fact, nil, "new ones are spread evenly: those to %s last longer", l.full.Addr)
	} else {
		l.add(Fact, nil, "nothing that this node knows explains it")
	}
	l.fewest()
}

// set says what would help, in the mode in which it counts.
func (l *load) set(annotation, effect string) {
	where := ""
	if l.byKernel() {
		where = " (with portald.io/mode: userspace)"
	}
	l.add(Fact, nil, "portald.io/%s%s %s", annotation, where, effect)
}

// fewest suggests the algorithm that evens out load, unless it is there already.
func (l *load) fewest() {
	if l.Port.Policy.Or(l.node.Policy).Algorithm != service.LeastConnections {
		l.set("algorithm: least-connections", "leads new ones to endpoints that have fewer")
	}
}

// leftOut is why the emptiest endpoint gets no new connections, or got none.
func (l *load) leftOut() bool {
	at := l.empty.Addr
	if l.Drained != nil && l.Drained(at) {
		l.add(Fact, nil, "%s is drained; portald drain --undo %s ends that", at, at)
		return true
	}
	if why := l.ejected(l.empty); why != "" {
		l.add(Fact, nil, "%s is %s", at, why)
		return true
	}
	ejections := 0
	for _, c := range l.Changes {
		if c.Kind == changes.EndpointEjected && c.Endpoint == at && l.now.Sub(c.Time) <= recentTime {
			ejections++
		}
	}
	if ejections == 0 {
		return false
	}
	l.add(Fact, nil, "%s was ejected %s in the last %s, since it failed connections; portald.io/eject-after says after "+
		"how many", at, count(ejections, "time"), roughly(recentTime))
	return true
}

// local is that frontends with a Local policy lead to this node's endpoints alone.
func (l *load) local() bool {
	if l.byKernel() || !l.full.Local || l.empty.Local {
		return false
	}
	n := 0
	for _, c := range l.all {
		if c.to == l.full.Addr && l.Port.Scope(c.kind) == service.NodeScope {
			n++
		}
	}
	if 2*n < l.of[l.full.Addr] {
		return false
	}
	l.add(Fact, nil, "%d of them came by frontends whose traffic policy is Local, which lead clients to endpoints of "+
		"this node alone", n)
	return true
}

// bound is that affinity binds clients.
func (l *load) bound() bool {
	if l.Port.Affinity == 0 {
		return false
	}
	if l.byKernel() {
		l.add(Fact, nil, "ClientIP affinity: the kernel binds each of %s to one endpoint", l.howMany())
	} else {
		l.add(Fact, nil, "ClientIP affinity: %s bound to %s, %d to %s", are(l.Bindings[l.full.Addr]), l.full.Addr,
			l.Bindings[l.empty.Addr], l.empty.Addr)
	}
	l.heaviestClient()
	l.add(Fact, nil, "sessionAffinity: None, or a shorter timeoutSeconds than %.0f, spreads clients again",
		l.Port.Affinity.Seconds())
	return true
}

func are(clients int) string {
	if clients == 1 {
		return "1 client is"
	}
	return fmt.Sprintf("%d clients are", clients)
}

// hashed is that the client's address chooses.
func (l *load) hashed() bool {
	if l.Port.Affinity > 0 || l.Port.Policy.Or(l.node.Policy).Algorithm != service.SourceHash {
		return false
	}
	l.add(Fact, nil, "algorithm source-hash: each of %s has one endpoint, by its address", l.howMany())
	l.heaviestClient()
	l.add(Fact, nil, "portald.io/algorithm: round-robin spreads the connections of each client")
	return true
}

// howMany clients there are.
func (l *load) howMany() string {
	seen := map[netip.Addr]bool{}
	for _, c := range l.all {
		seen[c.client] = true
	}
	return count(len(seen), "client")
}

// heaviestClient names the client that has at least half of what the fullest endpoint has.
func (l *load) heaviestClient() {
	of, most := map[netip.Addr]int{}, netip.Addr{}
	for _, c := range l.all {
		if c.to != l.full.Addr {
			continue
		}
		if of[c.client]++; of[c.client] > of[most] {
			most = c.client
		}
	}
	if n := of[most]; 2*n >= l.of[l.full.Addr] {
		l.add(Fact, nil, "%d of those to %s are of one client, %s", n, l.full.Addr, most)
	}
}

// older is that connections were made before the emptiest endpoint was there.
func (l *load) older() bool {
	since := l.came(l.empty.Addr)
	if since.IsZero() {
		return false
	}
	came := fmt.Sprintf("%s came %s ago", l.empty.Addr, roughly(l.now.Sub(since)))
	n, known := 0, 0
	for _, c := range l.all {
		if c.to == l.full.Addr && !c.start.IsZero() {
			known++
			if c.start.Before(since) {
				n++
			}
		}
	}
	switch {
	case known == 0:
		l.add(Fact, nil, "%s: connections that were made before stay where they are", came)
	case 2*n < known:
		return false
	default:
		l.add(Fact, nil, "%s, after %d of the %d to %s were made", came, n, known, l.full.Addr)
	}
	if l.Port.Name.Protocol != inet.TCP {
		return true
	}
	if age := l.Port.Policy.Or(l.node.Policy).MaxAge; age.Time > 0 && !l.byKernel() {
		l.add(Fact, nil, "max-age %s closes them at that age, when they are quiet", age)
	} else {
		l.set("max-age: 10m±20%", "closes old ones when they are quiet, so that their clients spread again")
	}
	l.fewest()
	return true
}

// starting is that the emptiest endpoint still has a smaller share.
func (l *load) starting() bool {
	slow, since := l.Port.Policy.Or(l.node.Policy).SlowStart, l.came(l.empty.Addr)
	if slow <= 0 || l.byKernel() || since.IsZero() || l.now.Sub(since) >= slow {
		return false
	}
	l.add(Fact, nil, "slow-start %s: %s came %s ago, and has a smaller share until then", slow, l.empty.Addr,
		roughly(l.now.Sub(since)))
	return true
}
