package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/reach"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// MostProbed bounds the endpoints that are probed for a report.
const MostProbed = 16

// MayProbe returns why nothing can be probed for a query; nil: its endpoints can.
func (q Query) MayProbe() error {
	if q.kind == kindClient {
		return fmt.Errorf("%s --probe: must be a Service, an address or a pod: clients are not probed", q.What)
	}
	return nil
}

// Targets are the endpoints that may be probed for a query: those of the service ports that were asked for, and no
// other address. Those that do not seem to answer are first. MostProbed bounds them.
func Targets(query Query, subjects []Subject) (targets []reach.Target) {
	type ranked struct {
		reach.Target
		rank int
	}
	var all []ranked
	for i := range subjects {
		s := &subjects[i]
		for _, x := range s.Port.Endpoints {
			t := ranked{Target: reach.Target{At: x.Addr, Connect: s.Port.Name.Protocol == inet.TCP}}
			switch {
			case s.suspect(x.Addr):
			case x.Ready:
				t.rank = 1
			default:
				t.rank = 2
			}
			if query.means(x) {
				all = append(all, t)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for _, t := range all {
		if len(targets) < MostProbed && !slices.Contains(targets, t.Target) {
			targets = append(targets, t.Target)
		}
	}
	return targets
}

// suspect tells whether something failed of an endpoint.
func (s *Subject) suspect(at netip.AddrPort) bool {
	failed := func(a record.Attempt) bool { return a.Endpoint == at && a.Failed() }
	return slices.ContainsFunc(s.Records, func(r *record.Record) bool {
		return slices.ContainsFunc(r.Attempts, failed) || r.Endpoint.Addr == at && !r.Outcome.Well()
	}) || slices.ContainsFunc(s.Flows, func(f flows.Flow) bool { return f.Replier == at && f.Status&flows.SeenReply == 0 })
}

// SetProbes gives subjects the results of their endpoints' probes.
func SetProbes(subjects []Subject, targets []reach.Target, results []reach.Result) {
	for i := range subjects {
		s := &subjects[i]
		s.Probes = map[netip.AddrPort]reach.Result{}
		for k, t := range targets {
			is := func(x service.Endpoint) bool { return x.Addr == t.At }
			if t.Connect == (s.Port.Name.Protocol == inet.TCP) && slices.ContainsFunc(s.Port.Endpoints, is) {
				s.Probes[t.At] = results[k]
			}
		}
	}
}

// probed is what the probes of a subject say.
type probed struct {
	*builder
	ways
	query *Query
}

// find finds endpoints in use that a probe got no connection to.
func (p *probed) find() {
	ready, failed := 0, 0
	var first service.Endpoint
	for _, x := range p.Port.Endpoints {
		if !x.Ready || !p.query.means(x) {
			continue
		}
		ready++
		r, is := p.Probes[x.Addr]
		if !is {
			continue
		}
		if status, _, _ := judgeProbe(&r, p.now); status != Good && status != Fact {
			if failed++; failed == 1 {
				first = x
			}
		}
	}
	if failed == 0 {
		return
	}
	status := Doubt
	if failed == ready {
		status = Wrong
	}
	r := p.Probes[first.Addr]
	_, text, _ := judgeProbe(&r, p.now)
	next := p.to(first.Addr, p.now).next
	more := ""
	if failed > 1 {
		more = fmt.Sprintf(" (nor do %d more of %d)", failed-1, ready)
	}
	p.builder.find(status, next, "%s does not take a probe as an endpoint of %s%s: %s.", p.name(first.Addr), p.label(),
		more, text)
}

// listProbes lists what the probes found.
func listProbes(b *builder, query Query, subjects []Subject) {
	asked := slices.ContainsFunc(subjects, func(s Subject) bool { return s.Probes != nil })
	if !asked {
		return
	}
	left := 0
	for i := range subjects {
		s := &subjects[i]
		for _, x := range s.Port.Endpoints {
			if !query.means(x) {
				continue
			}
			if r, probed := s.Probes[x.Addr]; probed {
				addProbe(b, x, &r)
			} else {
				left++
			}
		}
	}
	b.prefix = ""
	b.section("Probe")
	if len(b.report.Probes) == 0 {
		b.add(Fact, nil, "no endpoint to probe")
		return
	}
	b.add(Fact, nil, "sent by this node, once: a TCP connect to the endpoint, one to port %d of its host, and a ping; "+
		"each had %s", reach.ClosedPort, reach.Timeout)
	if left > 0 {
		b.add(Fact, nil, "%d more were not probed: name a pod", left)
	}
}

// addProbe adds a row, once for what is an endpoint of several service ports.
func addProbe(b *builder, x service.Endpoint, r *reach.Result) {
	p := Probe{Endpoint: x.Addr, Pod: x.Pod, Connect: string(r.Connect), Host: host(r)}
	if r.Connect != "" {
		p.TookMS = float64(r.Took.Microseconds()) / 1000
	}
	p.Status, p.Verdict, _ = judgeProbe(r, b.report.Time)
	if !slices.Contains(b.report.Probes, p) {
		b.report.Probes = append(b.report.Probes, p)
	}
}
