package debug

import (
	"fmt"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/platform/printable"
)

// document is the summary for people, which is printed as text and as a page.
type document struct {
	title    string
	facts    []string
	sections []section
}

// section is a list with a title.
type section struct {
	title   string
	columns []column
	rows    []row
	empty   string // is said where there is no row
	notes   []string
}

// column is one of a section. Numbers are aligned at their ends.
type column struct {
	name   string
	number bool
}

// row has a cell for each column.
type row struct {
	cells []string
	bad   bool // it is about failures
}

func columns(names ...string) (all []column) {
	for _, n := range names {
		name, number := strings.CutPrefix(n, "#")
		all = append(all, column{name, number})
	}
	return all
}

// document makes the text of a summary.
func (s *Summary) document() *document {
	lasted := s.Ended.Sub(s.Began).Round(100 * time.Millisecond)
	d := &document{title: fmt.Sprintf("%s, %s UTC, %s", s.Service, s.Began.Format("2006-01-02 15:04:05"), lasted)}
	d.facts = append(d.facts, fmt.Sprintf("%s, %d failed. It ended: %s.", counted(s.Connections, "connection"), s.Failed,
		s.EndedBy))
	if open := s.open(); open > 0 {
		d.facts = append(d.facts, counted(open, "connection")+" open at the end: portald carries them until they end, and "+
			"they are not counted here.")
	}
	d.facts = append(d.facts, s.Notes...)
	if s.LeftOut > 0 {
		d.facts = append(d.facts, fmt.Sprintf("Lists are full: they have no room for %d more.", s.LeftOut))
	}
	d.sections = []section{s.ofOutcomes(), s.ofEndpoints(), s.ofResets(), s.ofClients(), s.ofChanges(), s.ofFailures(),
		s.ofNodes()}
	return d
}

func counted(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func (s *Summary) open() (n int) {
	for _, of := range s.Nodes {
		if of.Open != nil {
			n += *of.Open
		}
	}
	return n
}

func (s *Summary) ofOutcomes() section {
	out := section{title: "Outcomes", columns: columns("OUTCOME", "#CONNECTIONS", "#SHARE"), empty: "No connection ended."}
	for _, o := range s.Outcomes {
		share := fmt.Sprintf("%.1f %%", 100*float64(o.Times)/float64(s.Connections))
		out.rows = append(out.rows, row{[]string{string(o.Outcome), fmt.Sprint(o.Times), share}, !o.Outcome.Well()})
	}
	return out
}

func (s *Summary) ofEndpoints() section {
	out := section{title: "Endpoints", empty: "None was dialled.", columns: columns("ENDPOINT", "POD", "NODE", "#DIALS",
		"#FAILED", "#DIAL P50", "#P99", "#CONNECTIONS", "#FAILED", "#FIRST BYTE P50", "#P99", "#MAX", "LAST ERROR")}
	for _, e := range s.Endpoints {
		out.rows = append(out.rows, row{[]string{
			e.Address.String(), orNone(e.Pod), orNone(e.Node), fmt.Sprint(e.Dials), fmt.Sprint(e.DialsFailed),
			e.Dial.text(50), e.Dial.text(99), fmt.Sprint(e.Connections), fmt.Sprint(e.Failed), e.FirstByte.text(50),
			e.FirstByte.text(99), e.FirstByte.text(100), orNone(e.LastError),
		}, e.Failed+e.DialsFailed > 0})
	}
	if len(out.rows) > 0 {
		out.notes = []string{"Times are over the records of all nodes: of fewer than 100, P99 is the longest. A first byte " +
			"counts from the client's connection, with the dials."}
	}
	return out
}

// text is a percentile with what people compare, in milliseconds.
func (t *Times) text(p float64) string {
	ms, any := t.percentile(p)
	if p == 100 {
		ms = t.most
	}
	if !any {
		return "-"
	}
	return inspect.Millis(&ms)
}

func (s *Summary) ofResets() section {
	out := section{title: "Who reset whom", empty: "No connection was reset.",
		columns: columns("RESET BY", "OUTCOME", "ENDPOINT", "POD", "#TIMES", "FIRST", "LAST", "LAST CLIENT")}
	for _, r := range s.Resets {
		out.rows = append(out.rows, row{[]string{
			orNone(string(r.By)), string(r.Outcome), address(r.Endpoint), orNone(r.Pod), fmt.Sprint(r.Times),
			r.First.Format("15:04:05.000"), r.Last.Format("15:04:05.000"), r.Client,
		}, true})
	}
	return out
}

func (s *Summary) ofClients() section {
	out := section{title: "Clients", empty: "None.", columns: columns("CLIENT", "POD", "#CONNECTIONS", "#FAILED")}
	for i, c := range s.Clients {
		if i == mostClients {
			out.notes = []string{fmt.Sprintf("%d more", len(s.Clients)-mostClients)}
			break
		}
		out.rows = append(out.rows, row{[]string{
			c.Address.String(), orNone(c.Pod), fmt.Sprint(c.Connections), fmt.Sprint(c.Failed),
		}, c.Failed > 0})
	}
	return out
}

func (s *Summary) ofChanges() section {
	out := section{title: "Changes meanwhile", empty: "None.", columns: columns("TIME", "CHANGE", "ON NODES")}
	for _, c := range s.Changes {
		out.rows = append(out.rows, row{[]string{c.Time.Format("15:04:05.000"), c.Text,
			orNone(strings.Join(c.Nodes, ", "))}, false})
	}
	return out
}

func (s *Summary) ofFailures() section {
	out := section{title: "Connections that failed", empty: "None.", columns: columns("RECORD")}
	for _, f := range s.Failures {
		out.rows = append(out.rows, row{[]string{f.Text}, true})
	}
	if len(s.Failures) < s.Failed {
		out.notes = []string{fmt.Sprintf("The last %d of %d.", len(s.Failures), s.Failed)}
	}
	return out
}

func (s *Summary) ofNodes() section {
	out := section{title: "Nodes", empty: "None.", columns: columns("NODE", "STATE", "#RECORDS MISSED", "#OPEN")}
	for _, n := range s.Nodes {
		open := "-"
		if n.Open != nil {
			open = fmt.Sprint(*n.Open)
		}
		out.rows = append(out.rows, row{[]string{n.String(), orNone(n.State), fmt.Sprint(n.Missed), open}, n.Missed > 0})
	}
	return out
}

func orNone(text string) string { return firstOf(text, "-") }

func address(a netip.AddrPort) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

// text is the document for a terminal, for which it is harmless.
func (d *document) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", printable.Text(d.title))
	for _, f := range d.facts {
		fmt.Fprintf(&out, "%s\n", printable.Text(f))
	}
	for _, s := range d.sections {
		s.text(&out)
	}
	return out.String()
}

func (s *section) text(out *strings.Builder) {
	fmt.Fprintf(out, "\n%s\n", s.title)
	if len(s.rows) == 0 {
		fmt.Fprintf(out, "  %s\n", s.empty)
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if len(s.columns) > 1 {
		var names []string
		for _, c := range s.columns {
			names = append(names, c.name)
		}
		fmt.Fprintf(table, "  %s\n", strings.Join(names, "\t"))
	}
	for _, r := range s.rows {
		var cells []string
		for _, c := range r.cells {
			cells = append(cells, printable.Text(c))
		}
		fmt.Fprintf(table, "  %s\n", strings.Join(cells, "\t"))
	}
	_ = table.Flush() // a Builder fails never
	for _, n := range s.notes {
		fmt.Fprintf(out, "  %s\n", printable.Text(n))
	}
}
