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
	"fmt"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
)

// Status classifies a line of a report: a fact, or something that is well, needs attention, or is wrong.
type Status string

// The statuses, the worse the later.
const (
	Fact  Status = ""
	Good  Status = "good"
	Doubt Status = "doubt"
	Wrong Status = "wrong"
)

// Report is the answer to one query.
type Report struct {
	What     string    `json:"what"` // as it was asked
	From     string    `json:"from,omitempty"`
	Node     string    `json:"node"`
	Time     time.Time `json:"time"`
	Sections []Section `json:"sections"`
	Verdict  Line      `json:"verdict"` // one sentence
	Next     string    `json:"next"`    // the command to run next
	Nearest  []string  `json:"nearest,omitempty"`
}

// Section is one stage of a packet's way.
type Section struct {
	Title string `json:"title"`
	Lines []Line `json:"lines"`
}

// Line is one statement, with what it rests on.
type Line struct {
	Status  Status   `json:"status,omitempty"`
	Text    string   `json:"text"`
	Details []string `json:"details,omitempty"`
}

// Omit notes that so many service ports are left out.
func (r *Report) Omit(n int) {
	r.Sections = append(r.Sections, Section{"More", []Line{{Text: fmt.Sprintf(
		"%d more service ports are meant by this: name one, as NAMESPACE/NAME:PORT", n)}}})
}

// Known tells whether this node knows anything that matches the query.
func (r *Report) Known() bool { return len(r.Sections) > 0 }

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
	b.conclude(subjects, query)
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
	e.recent()
	e.flows()
}

// builder fills a report.
type builder struct {
	report   *Report
	prefix   string // of titles, where there are several subjects
	findings []finding
}

// finding is a line that may be the verdict.
type finding struct {
	status  Status
	verdict string
	next    string
}

func (b *builder) section(title string) {
	b.report.Sections = append(b.report.Sections, Section{Title: b.prefix + title, Lines: []Line{}})
}

// add adds a line to the last section.
func (b *builder) add(status Status, details []string, format string, values ...any) {
	s := &b.report.Sections[len(b.report.Sections)-1]
	s.Lines = append(s.Lines, Line{status, fmt.Sprintf(format, values...), details})
}

// find notes what may be the verdict, and the command to run next.
func (b *builder) find(status Status, next, format string, values ...any) {
	b.findings = append(b.findings, finding{status, fmt.Sprintf(format, values...), next})
}

// first returns the first finding of a status: what comes first in a packet's way.
func (b *builder) first(status Status) (finding, bool) {
	for _, f := range b.findings {
		if f.status == status {
			return f, true
		}
	}
	return finding{}, false
}

// conclude sets the verdict: the first thing that is wrong, or else in doubt, or else that all is well.
func (b *builder) conclude(subjects []Subject, query Query) {
	for _, status := range []Status{Wrong, Doubt, Good} {
		if f, ok := b.first(status); ok {
			b.report.Verdict, b.report.Next = Line{Status: status, Text: f.verdict}, f.next
			return
		}
	}
	if len(subjects) == 0 && !b.report.Known() {
		b.report.Verdict = Line{Status: Wrong, Text: fmt.Sprintf("Nothing on this node is known by %q.", query.What)}
		b.report.Next = "portald services --all-namespaces"
		return
	}
	b.report.Verdict = Line{Status: Good, Text: fmt.Sprintf("Nothing stands in the way of %s on this node.", query.What)}
	b.report.Next = "portald conns --all-namespaces"
}
