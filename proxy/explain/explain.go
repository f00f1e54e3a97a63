// Package explain says what this node does for a Service, an address, a pod or a connection, in the order in which a
// packet meets it, and why:
//
//	query, err := explain.Parse("shop/cart:http", "10.244.1.7")
//	query, ports := explain.Find(query, store.Ports(), isLocal)
//	report := explain.Explain(query, node, subjects, now) // subjects: the facts of ports
//
// It is given all facts: it queries nothing by itself, and changes nothing.
package explain

import (
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
)

// Explain reports on subjects. Without any, it says that nothing of that name is known here.
func Explain(query Query, node Node, subjects []Subject, now time.Time) *Report {
	b := &builder{report: &Report{What: query.What, Node: node.Name, Time: now}}
	if query.From.IsValid() {
		b.report.From = query.From.String()
	}
	b.connection(query.Connection)
	subjects, younger := contested(query, subjects)
	for i := range subjects {
		e := explained{
			builder: b, Subject: &subjects[i], node: &node, query: &query, now: now, younger: younger[subjects[i].Port.Name],
		}
		e.prefix = ""
		if len(subjects) > 1 {
			e.prefix = e.Port.Name.String() + ": "
		}
		e.explain()
	}
	if n := len(query.Ambiguous); n > 0 {
		b.find(Wrong, "portald explain "+query.Ambiguous[0], "%q may be any of %d: name one with its namespace.",
			query.What, n)
	}
	b.outgoing(node.Outgoing)
	listProbes(b, query, subjects)
	b.conclude(len(subjects))
	return b.report
}

// explained is one subject on its way into the report.
type explained struct {
	*builder
	*Subject
	node  *Node
	query *Query
	now   time.Time

	younger []string // others that claim the frontend that was asked for
}

// contested leaves out the service ports that claim the frontend that was asked for and do not own it, and returns them
// by the name of the holder, if that is among the subjects.
func contested(query Query, subjects []Subject) (rest []Subject, younger map[service.PortName][]string) {
	younger = map[service.PortName][]string{}
	for _, s := range subjects {
		holder := s.Port.Name
		if f, ok := query.Frontends[holder]; ok && s.Applied != nil {
			if other, owned := s.Applied.Holders[f]; owned {
				holder = other
			}
		}
		isHolder := func(o Subject) bool { return o.Port.Name == holder }
		if holder != s.Port.Name && slices.ContainsFunc(subjects, isHolder) {
			younger[holder] = append(younger[holder], s.label())
		} else {
			rest = append(rest, s)
		}
	}
	return rest, younger
}

// ways tells of its endpoints why they do not answer.
func (e *explained) ways() ways { return ways{e.Subject, e.node, e.now} }

// explain adds the sections of a subject.
func (e *explained) explain() {
	e.problems()
	if e.query.Pod == "" && !e.query.Endpoint.IsValid() {
		e.frontends()
		e.mode()
		e.rules()
		e.clients()
	}
	e.endpoints()
	e.ofEndpoint()
	e.changed()
	(&probed{e.builder, e.ways(), e.query}).find()
	(&otherSources{e.builder, e.Subject, e.query.means}).list()
	(&pathMTU{e.builder, e.Subject, e.now}).list()
	e.recent()
	(&openNow{e.builder, e.Subject, e.now}).list()
	e.uneven()
	e.flows()
}
