package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
)

// audience is clients with the same endpoints.
type audience struct {
	family  inet.Family
	scope   service.Scope
	kinds   []service.Kind // of the frontends that they dial
	clients string         // empty: all
}

// audiences returns the audiences of the frontends that are explained, and of the client that was asked for.
func (e *explained) audiences() (out []audience) {
	for _, x := range e.exposures() {
		for _, a := range e.audiencesOf(x) {
			i := slices.IndexFunc(out, func(o audience) bool {
				return o.family == a.family && o.scope == a.scope && o.clients == a.clients
			})
			if i < 0 {
				out = append(out, a)
			} else if !slices.Contains(out[i].kinds, x.Kind) {
				out[i].kinds = append(out[i].kinds, x.Kind)
			}
		}
	}
	return out
}

// audiencesOf returns the audiences of one frontend: with an external Local policy, clients inside the cluster have
// other endpoints than clients outside.
func (e *explained) audiencesOf(x service.Exposure) []audience {
	family := inet.FamilyOf(x.Frontend.Addr.Addr())
	a := audience{family: family, scope: e.Port.Scope(x.Kind), kinds: []service.Kind{x.Kind}}
	if x.Kind == service.ClusterIP || a.scope == service.ClusterScope || e.oneSetForAll(a) {
		return []audience{a}
	}
	inside := a
	inside.scope, inside.clients = service.ClusterScope, "clients inside the cluster"
	a.clients = "clients outside the cluster"
	switch is, known := e.inside(); {
	case known && is:
		return []audience{inside}
	case known:
		return []audience{a}
	}
	return []audience{a, inside}
}

// oneSetForAll tells whether clients inside the cluster get the endpoints of those outside: IPVS has one set.
func (e *explained) oneSetForAll(a audience) bool {
	kernel := e.Port.Mode.Or(e.node.Mode) == service.ModeKernel
	return kernel && e.node.Writer == "ipvs" && len(e.Port.Usable(a.family, a.scope)) > 0
}

// title names the clients and the frontends.
func (a audience) title() string {
	var kinds []string
	for _, k := range a.kinds {
		kinds = append(kinds, k.String())
	}
	of := strings.Join(kinds, ", ") + " of " + a.family.String()
	if a.clients == "" {
		return of
	}
	return a.clients + ", by " + of
}

// endpoints are which endpoints clients get, and why not the others.
func (e *explained) endpoints() {
	all := e.audiences()
	if e.query.Pod != "" || e.query.Endpoint.IsValid() {
		if e.wanted(); e.asksForFormer() {
			return
		}
	}
	for _, a := range all {
		e.section("Endpoints for " + a.title())
		e.audience(a)
	}
}

// mostLines bounds the endpoints that are listed for an audience.
const mostLines = 64

func (e *explained) audience(a audience) {
	used := map[Reason]int{}
	lines := 0
	for _, x := range e.Port.Endpoints {
		why := e.why(a, x)
		used[why]++
		if !e.query.means(x) {
			continue
		}
		if lines++; lines > mostLines {
			continue
		}
		e.add(why.status(), nil, "%s: %s", endpointText(x), e.because(why, x))
	}
	if lines > mostLines {
		e.add(Fact, nil, "and %d more: portald endpoints %s", lines-mostLines, e.flag())
	}
	if e.query.Pod == "" && !e.query.Endpoint.IsValid() {
		e.summary(a, used)
	}
}

func endpointText(x service.Endpoint) string {
	text := x.Addr.String()
	if x.Pod != "" {
		text += " pod " + x.Pod
	}
	if x.Node != "" {
		text += " on " + x.Node
	}
	if x.Zone != "" {
		text += " in " + x.Zone
	}
	return text
}

// Reason is why an endpoint is used, or not.
type Reason string

// The reasons.
const (
	Used          Reason = "used"
	UsedDraining  Reason = "used_while_terminating"
	WrongFamily   Reason = "other_family"
	NotReady      Reason = "not_ready"
	Terminating   Reason = "terminating"
	Gone          Reason = "terminated"
	OtherNode     Reason = "other_node"
	NotHinted     Reason = "not_hinted"
	Drained       Reason = "drained"
	Ejected       Reason = "ejected"
	AffinityLimit Reason = "affinity_limit"
)

// why returns the reason of an endpoint for an audience, the first that would have to change.
func (e *explained) why(a audience, x service.Endpoint) Reason {
	same := func(u service.Endpoint) bool { return u.Addr == x.Addr }
	usable := slices.ContainsFunc(e.Port.Usable(a.family, a.scope), same)
	switch {
	case inet.FamilyOf(x.Addr.Addr()) != a.family:
		return WrongFamily
	case usable && e.Drained != nil && e.Drained(x.Addr):
		return Drained
	case usable && e.leftOut(a, x):
		return AffinityLimit
	case usable && e.ejected(x) != "":
		return Ejected
	case usable && x.Terminating:
		return UsedDraining
	case usable:
		return Used
	case x.Terminating && !x.Serving:
		return Gone
	case !x.Ready && !x.Terminating:
		return NotReady
	case a.scope == service.NodeScope && !x.Local:
		return OtherNode
	case x.Terminating:
		return Terminating
	}
	return NotHinted
}

// ejected is why an endpoint is left out for a while; empty: it is not.
func (e *explained) ejected(x service.Endpoint) string {
	if e.Ejected == nil {
		return ""
	}
	return e.Ejected(x.Addr)
}

// leftOut tells whether the kernel's pool lacks an endpoint that may be used.
func (e *explained) leftOut(a audience, x service.Endpoint) bool {
	if e.Applied == nil || e.Port.Affinity == 0 || !e.Applied.Port.Equal(e.Port) {
		return false
	}
	for _, p := range e.Applied.Claims {
		to, spreads := p.Target.(portal.Spread)
		if spreads && inet.FamilyOf(p.Frontend.Addr.Addr()) == a.family {
			return !slices.ContainsFunc(to.Pool.Of(a.scope), func(o portal.Endpoint) bool { return o.Addr == x.Addr })
		}
	}
	return false
}

func (r Reason) status() Status {
	switch r {
	case Used:
		return Good
	case UsedDraining, NotReady, Drained, AffinityLimit, Ejected:
		return Doubt
	}
	return Fact
}

// because says a reason.
func (e *explained) because(r Reason, x service.Endpoint) string {
	return map[Reason]string{
		Used:          "used",
		UsedDraining:  "used although it terminates: no endpoint is ready",
		WrongFamily:   "not used: it is of the other IP family",
		NotReady:      "not used: it is not ready",
		Terminating:   "not used: it terminates, and others are ready",
		Gone:          "not used: it terminates, and does not serve any more",
		OtherNode:     "not used: the traffic policy is Local, and it is on another node",
		NotHinted:     "not used: topology hints give it to other nodes or zones",
		Drained:       "not used for new connections: drained by portald drain",
		Ejected:       "not used for a while: " + e.ejected(x),
		AffinityLimit: "not used: affinity by the kernel serves no more endpoints from one node",
	}[r]
}

// summary says what clients without an endpoint, or with few, see.
func (e *explained) summary(a audience, of map[Reason]int) {
	used := of[Used] + of[UsedDraining]
	total := len(e.Port.EndpointsOf(a.family))
	if used > 0 {
		e.find(Good, "portald conns "+e.flag(), "Clients of %s get %d of its %d endpoints through this node.", e.label(),
			used, total)
		if of[Used] == 0 {
			e.find(Doubt, "kubectl get pods -n "+e.Port.Name.Namespace,
				"All endpoints of %s that serve are terminating.", e.label())
		}
		return
	}
	pods := "kubectl get pods -o wide -n " + e.Port.Name.Namespace
	who := "Clients"
	if a.clients != "" {
		who = "Clients" + strings.TrimPrefix(a.clients, "clients")
	}
	sentence, next := fmt.Sprintf("%s has no endpoint of %s.", e.label(), a.family), pods
	switch {
	case total == 0:
		next = "kubectl get endpointslices -n " + e.Port.Name.Namespace +
			" -l kubernetes.io/service-name=" + e.Port.Name.Name
	case of[Drained] > 0:
		sentence, next = "The endpoints of "+e.label()+" that could be used are drained.", "portald endpoints "+e.flag()
	case of[OtherNode] > 0:
		sentence = fmt.Sprintf("%s of %s get no endpoint through this node: the traffic policy is Local, and none of its %d "+
			"endpoints here is ready.", who, e.label(), total)
	default:
		sentence = fmt.Sprintf("None of the %d endpoints of %s is ready.", total, e.label())
	}
	if e.Refused.Packets > 0 && e.refuses() {
		sentence += " " + e.refusals() + "."
	}
	status := Wrong
	if a.clients != "" && !e.query.From.IsValid() || e.mayWait(a) {
		status = Doubt // others get one, or it may come in time
	}
	if e.mayWait(a) {
		sentence += fmt.Sprintf(" New connections wait up to %s for one.", e.patience())
	}
	e.add(status, nil, "no endpoint: %s", e.refusal(a))
	e.find(status, next, "%s", sentence)
}

// refusal describes what clients without an endpoint see.
func (e *explained) refusal(a audience) string {
	usable := e.Port.UsableEndpoints(a.family)
	switch none := e.Port.Availability(usable, a.kinds[0]) == service.Unavailable; {
	case e.mayWait(a):
		return fmt.Sprintf("a client waits up to %s, and is refused then", e.patience())
	case none && e.patience() <= 0:
		return "clients are refused"
	}
	return "packets are dropped, so that clients try another node"
}

// mayWait tells whether clients wait for an endpoint: not those from outside that a Local policy keeps to this node's.
func (e *explained) mayWait(a audience) bool {
	return e.patience() > 0 && (a.scope == service.ClusterScope || a.kinds[0] == service.ClusterIP)
}

// wanted is the pod or address that was asked for.
func (e *explained) wanted() {
	for _, x := range e.Port.Endpoints {
		if !e.query.means(x) {
			continue
		}
		var why Reason
		for _, a := range e.audiences() {
			if r := e.why(a, x); why == "" || r == Used {
				why = r
			}
		}
		status := Good
		if why != Used {
			status = Doubt
		}
		name := x.Addr.String()
		if x.Pod != "" {
			name = "pod " + x.Pod
		}
		e.find(status, "portald conns --endpoint "+x.Addr.String(), "As an endpoint of %s, %s is %s.", e.label(), name,
			e.because(why, x))
	}
	if e.asksForFormer() {
		e.removed()
	}
}

// asksForFormer tells whether no endpoint is the one that was asked for.
func (e *explained) asksForFormer() bool {
	return !slices.ContainsFunc(e.Port.Endpoints, e.query.means)
}

// removed is about an endpoint that was asked for and is none any more.
func (e *explained) removed() {
	former := e.former()
	if len(former) == 0 {
		return // its last connection has ended meanwhile
	}
	e.section("Endpoint")
	x := former[0]
	name := x.Addr.String()
	if x.Pod != "" {
		name += " (pod " + x.Pod + ")"
	}
	text := fmt.Sprintf("%s is no endpoint of %s any more", name, e.label())
	for _, c := range slices.Backward(e.Changes) {
		if c.Kind == changes.EndpointRemoved && c.Endpoint == x.Addr && c.Service == e.Port.Name {
			text += fmt.Sprintf(" (removed %s ago)", roughly(e.now.Sub(c.Time)))
			break
		}
	}
	e.add(Fact, nil, "%s", text)
	open := len(e.Live) + e.MoreLive
	if open == 0 {
		e.find(Good, "portald tail "+e.flag()+" --endpoint "+x.Addr.String(), "%s, and no connection to it is open.", text)
		return
	}
	e.find(Doubt, "portald conns --endpoint "+x.Addr.String(), "%s: %s to it, until a side closes.", text,
		count(open, "open connection"))
}

// former are the endpoints that were asked for and are none any more, by the connections that they have or had.
func (e *explained) former() (all []service.Endpoint) {
	add := func(x service.Endpoint) {
		is := func(o service.Endpoint) bool { return o.Addr == x.Addr }
		if x.Addr.IsValid() && e.query.means(x) && !slices.ContainsFunc(append(all, e.Port.Endpoints...), is) {
			all = append(all, x)
		}
	}
	for i := range e.Live {
		add(e.Live[i].Endpoint)
	}
	for _, r := range e.Records {
		add(r.Endpoint)
	}
	return all
}
