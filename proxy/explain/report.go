package explain

import (
	"fmt"
	"net/netip"
	"time"
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
	As       string    `json:"as,omitempty"` // the mode of Flip
	Node     string    `json:"node"`
	Time     time.Time `json:"time"`
	Sections []Section `json:"sections"`
	Verdict  Line      `json:"verdict"` // one sentence
	Next     string    `json:"next"`    // the command to run next
	Nearest  []string  `json:"nearest,omitempty"`
	Meaning  []string  `json:"meaning,omitempty"` // of Flip: what endpoints or clients have to be made for
	Probes   []Probe   `json:"probes,omitempty"`
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

// Probe is what a probe of an endpoint found.
type Probe struct {
	Endpoint netip.AddrPort `json:"endpoint"`
	Pod      string         `json:"pod,omitempty"`
	Connect  string         `json:"connect,omitempty"` // what became of a TCP connect; empty: it was not tried
	Host     string         `json:"host,omitempty"`    // whether its host answers, and how; empty: not known
	TookMS   float64        `json:"took_ms,omitempty"` // of the connect
	Status   Status         `json:"status,omitempty"`
	Verdict  string         `json:"verdict"`
}

// Omit notes that so many service ports are left out.
func (r *Report) Omit(n int) {
	r.Sections = append(r.Sections, Section{"More", []Line{{Text: fmt.Sprintf(
		"%d more service ports are meant by this: name one, as NAMESPACE/NAME:PORT", n)}}})
}

// Known tells whether this node knows anything that matches the query.
func (r *Report) Known() bool { return len(r.Sections) > 0 }

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

// amend adds a sentence to what was found last.
func (b *builder) amend(sentence string) { b.findings[len(b.findings)-1].verdict += sentence }

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
func (b *builder) conclude(subjects int) {
	for _, status := range []Status{Wrong, Doubt, Good} {
		if f, ok := b.first(status); ok {
			b.report.Verdict, b.report.Next = Line{Status: status, Text: f.verdict}, f.next
			return
		}
	}
	if subjects == 0 && !b.report.Known() {
		b.report.Verdict = Line{Status: Wrong, Text: fmt.Sprintf("Nothing on this node is known by %q.", b.report.What)}
		b.report.Next = "portald services --all-namespaces"
		return
	}
	all := fmt.Sprintf("Nothing stands in the way of %s on this node.", b.report.What)
	b.report.Verdict = Line{Status: Good, Text: all}
	b.report.Next = "portald conns --all-namespaces"
}
