package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// judge decides what evidence means for the verdict.
type judge struct {
	*builder
	*Subject
	*evidence
	concerns func(service.Endpoint) bool
	ways     ways
}

// list says what was counted of each endpoint, if that is more than one can see in the list of connections.
func (j judge) list() {
	for _, t := range j.tallies {
		if t.failures() == 0 && len(j.tallies) == 1 {
			continue
		}
		status := Good
		if t.failures() > 0 {
			status = Doubt
		}
		var path []string
		if t.silent+t.noHost > 0 {
			path = j.ways.to(t.at, t.start).details()
		}
		j.add(status, path, "%s: %s", j.name(t.at), t)
	}
}

// String is what was counted, in words.
func (t *tally) String() string {
	text := fmt.Sprintf("%s, %d failed", count(t.dials, "dial"), t.failed)
	if t.failed > 0 {
		text += behind(t.why)
	}
	text += "; " + count(t.served, "connection")
	for _, n := range []struct {
		n    int
		text string
	}{
		{t.resets, "reset"}, {t.cut, "closed early"}, {t.lost, "lost"}, {t.mute, "not answered"},
	} {
		if n.n > 0 {
			text += fmt.Sprintf(", %d %s", n.n, n.text)
		}
	}
	if m, ok := t.median(); ok {
		text += fmt.Sprintf("; first byte after %s (median)", short(m))
	}
	return text
}

// decide finds what stands in the way: of endpoints that serve now, and then of all connections.
func (j judge) decide() {
	var now []*tally
	for _, t := range j.tallies {
		serves := func(x service.Endpoint) bool { return x.Addr == t.at && j.concerns(x) }
		if slices.ContainsFunc(j.Port.Endpoints, serves) {
			now = append(now, t)
		}
	}
	if j.nothingListens(now) {
		first := slices.MinFunc(now, func(a, b *tally) int { return a.began.Compare(b.began) })
		j.amend(j.past.onset(first.began))
		return
	}
	if j.endpointsFail(now) || j.slow(now) || j.refusals() {
		return
	}
	if j.failed == j.records && j.failed >= enough {
		j.find(j.status(), "portald tail "+j.flag(), "%s of %s failed %s; the last one ended as %s%s.",
			j.part(j.failed, j.records, "connection"), j.label(), j.since(), j.last.Outcome, behind(j.last.Error))
	}
}

// endpointsFail finds which endpoints fail. First comes the one of which the greatest part fails, not the most: one
// that always fails is ejected, and then fails seldom. The others are named all the same.
func (j judge) endpointsFail(now []*tally) bool {
	slices.SortStableFunc(now, func(a, b *tally) int {
		part := cmp.Compare(b.failures()*a.cases(), a.failures()*b.cases())
		return cmp.Or(part, cmp.Compare(b.failures(), a.failures()))
	})
	before := len(j.findings)
	var failing []*tally
	for _, t := range now {
		if j.crashed(t) || j.dials(t) || j.ends(t) {
			failing = append(failing, t)
		}
	}
	if len(failing) == 0 {
		return false
	}
	others := j.findings[before+1:]
	j.findings = j.findings[:before+1]
	j.amend(j.past.onset(failing[0].began))
	switch len(others) {
	case 0:
	case 1:
		j.amend(" Also: " + others[0].verdict)
	default:
		var names []string
		for _, t := range failing[1:] {
			names = append(names, j.name(t.at))
		}
		j.amend(fmt.Sprintf(" %d other endpoints fail too: %s.", len(others), strings.Join(names, ", ")))
	}
	return true
}

// since says over which time it was counted.
func (j judge) since() string { return "in the last " + roughly(max(j.span, time.Second)) }

// part says how many of how many, where both are known.
func (j judge) part(n, of int, noun string) string {
	if j.partial {
		return count(n, noun) + " (what goes well is not recorded)"
	}
	return fmt.Sprintf("%d of %s", n, count(of, noun))
}

// status is worse where no connection went well.
func (j judge) status() Status {
	if j.failed == j.records && !j.partial {
		return Wrong
	}
	return Doubt
}

// nothingListens finds that each dial was refused.
func (j judge) nothingListens(now []*tally) bool {
	dials, refused := 0, 0
	for _, t := range now {
		dials, refused = dials+t.dials, refused+t.refused
	}
	if refused < enough || refused < dials {
		return false
	}
	first := now[0]
	if len(now) == 1 {
		j.find(Wrong, "kubectl describe endpointslices -n "+j.Port.Name.Namespace+" -l kubernetes.io/service-name="+
			j.Port.Name.Name, "%s refused %s of %s %s: nothing listens at port %d there.", j.name(first.at),
			j.part(refused, dials, "dial"), j.label(), j.since(), first.at.Port())
		return true
	}
	j.find(Wrong, "kubectl describe service -n "+j.Port.Name.Namespace+" "+j.Port.Name.Name,
		"%d endpoints of %s refused %s %s: nothing listens at port %d; is targetPort the port that the pods listen at?",
		len(now), j.label(), j.part(refused, dials, "dial"), j.since(), first.at.Port())
	return true
}

// dials finds that an endpoint is not reached.
func (j judge) dials(t *tally) bool {
	dials, failed := t.dials+t.late, t.failed+t.late
	if !t.fails(failed, dials) {
		return false
	}
	part := j.part(failed, dials, "dial")
	switch {
	case t.refused == failed:
		j.find(j.status(), "kubectl get pods -o wide -n "+j.Port.Name.Namespace, "%s refused %s of %s %s: nothing "+
			"listens at port %d there.", j.name(t.at), part, j.label(), j.since(), t.at.Port())
	case t.barred == failed:
		j.find(j.status(), "ip route get "+t.at.Addr().String(), "%s of %s to %s %s did not leave this node: %s: a route "+
			"that prohibits it, or a program that filters what sockets connect to.", part, j.label(), j.name(t.at), j.since(),
			t.why)
	case t.noHost == failed:
		why := j.ways.to(t.at, t.start)
		j.find(j.status(), why.next, "%s cannot be reached, in %s of %s %s: %s: %s.", j.name(t.at), part, j.label(),
			j.since(), t.why, why.unreachable())
	case t.silent+t.noHost == failed:
		why := j.ways.to(t.at, t.start)
		j.find(j.status(), why.next, "%s left %s of %s %s unanswered: %s.", j.name(t.at), part, j.label(), j.since(),
			why.text)
	case t.late == failed:
		j.find(j.status(), "portald endpoints "+j.flag(), "%s was overtaken by another endpoint in %s of %s %s.",
			j.name(t.at), part, j.label(), j.since())
	default:
		j.find(j.status(), "portald endpoints "+j.flag(), "%s failed in %s of %s %s; the last error: %s.", j.name(t.at), part,
			j.label(), j.since(), cmp.Or(t.why, record.Overtaken))
	}
	return true
}

// crashed finds that an endpoint ended connections in mid-exchange, and then refused dials.
func (j judge) crashed(t *tally) bool {
	if !t.fails(t.cut, t.served) {
		return false
	}
	next := "portald tail " + j.flag() + " --outcome closed_early"
	if namespace, pod, ok := strings.Cut(j.pod(t.at), "/"); ok {
		next = "kubectl describe pod -n " + namespace + " " + pod
	}
	j.find(j.status(), next, "%s crashed, or was killed: it closed %s of %s in mid-exchange %s, and refused dials then.",
		j.name(t.at), j.part(t.cut, t.served, "connection"), j.label(), j.since())
	return true
}

// ends finds that connections that an endpoint had ended badly.
func (j judge) ends(t *tally) bool {
	for _, f := range []struct {
		n   int
		did string
	}{
		{t.resets, "were reset"},
		{t.lost, "ended since its host answered no more"},
		{t.mute, "got no answer"},
	} {
		if !t.fails(f.n, t.served) {
			continue
		}
		by := ""
		if f.n == t.resets && j.outcomes[record.OutcomeReset] == 0 {
			by = " by it"
		}
		hedge := ""
		if why := j.ways.to(t.at, time.Time{}); f.n != t.resets && why.gone {
			hedge = ": " + why.text
		} else if f.n == t.mute && !j.replied {
			hedge = oneWay
		}
		j.find(j.status(), "portald tail "+j.flag()+" --endpoint "+t.at.String(), "%s: %s of %s %s%s %s%s%s.", j.name(t.at),
			j.part(f.n, t.served, "connection"), j.label(), f.did, by, j.since(), j.beside(t), hedge)
		return true
	}
	return false
}

// beside says how the other endpoints do.
func (j judge) beside(t *tally) string {
	if len(j.tallies) < 2 {
		return ""
	}
	failed, served := 0, 0
	for _, o := range j.tallies {
		if o != t {
			failed, served = failed+o.broken(), served+o.served
		}
	}
	if served == 0 || j.partial {
		return ""
	}
	return fmt.Sprintf(" (the other endpoints: %d of %d)", failed, served)
}

// An endpoint is slow whose first bytes take that much longer than the others'.
const (
	slowTimes = 20
	slowLeast = 50 * time.Millisecond
)

// slow finds an endpoint that is slower than the others by far.
func (j judge) slow(now []*tally) bool {
	for _, t := range now {
		own, ok := t.median()
		others, more := j.others(t)
		if !ok || !more || own < slowLeast || own < slowTimes*others {
			continue
		}
		j.find(Doubt, "portald endpoints "+j.flag(), "%s is slow: its first byte takes %s, and %s of the others of %s "+
			"(median %s).", j.name(t.at), short(own), short(others), j.label(), j.since())
		return true
	}
	return false
}

// refusalTexts are why portald itself refuses clients.
var refusalTexts = map[record.Outcome]string{
	record.OutcomeNoEndpoint:  "there was no endpoint",
	record.OutcomeWaitLimit:   "too many waited for an endpoint",
	record.OutcomeSourceRange: "loadBalancerSourceRanges leave them out",
	record.OutcomeLimit:       "it had as many as it may have (maxConnections)",
	record.OutcomeClientLimit: "a client had as many as one may have (maxConnectionsPerClient)",
	record.OutcomeRate:        "more came in a second than may (connectionRate)",
	record.OutcomeClientRate:  "more came of a client in a second than may (connectionRatePerClient)",
	record.OutcomeResources:   "this node had no descriptors, ports or memory for them",
}

// refusals finds that portald itself refused clients.
func (j judge) refusals() bool {
	var most record.Outcome
	for _, o := range record.Outcomes() { // in a fixed order
		if _, refuses := refusalTexts[o]; refuses && j.outcomes[o] > j.outcomes[most] {
			most = o
		}
	}
	n := j.outcomes[most]
	if n < enough || n*oneIn < j.records {
		return false
	}
	next := "portald tail " + j.flag() + " --outcome " + string(most)
	if most == record.OutcomeResources {
		next = "portald doctor"
	}
	j.find(j.status(), next, "portald refused %s of %s %s: %s.", j.part(n, j.records, "connection"), j.label(), j.since(),
		refusalTexts[most])
	return true
}
