package faults

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

// explain runs `portald explain` on the node.
func (n *node) explain(what ...string) explain.Report {
	n.Helper()
	line := append([]string{"explain", "-o", "json", "--socket", n.daemon.Socket}, what...)
	text, err := n.Try(n.Node, bed.Portald, line...)
	n.Must(err)
	var r explain.Report
	n.Must(json.Unmarshal([]byte(text), &r))
	return r
}

// lines are all lines of a report with their details.
func lines(r explain.Report) string {
	var out strings.Builder
	for _, s := range r.Sections {
		fmt.Fprintln(&out, s.Title)
		for _, l := range s.Lines {
			fmt.Fprintln(&out, l.Text, strings.Join(l.Details, "\n"))
		}
	}
	return out.String()
}

// Nothing is wrong with a Service of a healthy node, in every mode.
func TestHealthyService(t *testing.T) {
	for _, m := range bed.Modes() {
		t.Run(m.Name, func(t *testing.T) {
			n := newNode(t, m.Args...)
			for range 4 {
				_, err := bed.Ask(n.Client, "tcp", bed.HostPort(bed.IP4, 80))
				n.Must(err)
			}
			if r := n.explain("shop/cart:http"); r.Verdict.Status != explain.Good || r.Next == "" {
				t.Errorf("the verdict is %+v\n%s", r.Verdict, lines(r))
			}
		})
	}
}

// explainFault is a fault of a Service, and the explanation of it.
type explainFault struct {
	of       []string // what is explained
	verdict  string   // a part of it
	says     string   // a part of a line, empty: the verdict is enough
	args     []string // of the daemon
	manifest func(*node) string
	plant    func(*node)
}

// The verdict names each fault, and the lines what it rests on.
func TestExplainNamesFaults(t *testing.T) {
	for name, fault := range explainFaults() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fault.args...)
			if fault.manifest != nil {
				n.daemon.Apply(fault.manifest(n))
			}
			if fault.plant != nil {
				fault.plant(n)
			}
			var r explain.Report
			named := func() bool { // records arrive when connections have ended
				r = n.explain(fault.of...)
				return r.Verdict.Status != explain.Good && strings.Contains(r.Verdict.Text, fault.verdict) &&
					strings.Contains(lines(r), fault.says) && r.Next != ""
			}
			if !bed.Within(bed.AnswerTimeout, named) {
				t.Errorf("want %q and %q: the verdict is %+v, next %q\n%s", fault.verdict, fault.says, r.Verdict, r.Next, lines(r))
			}
		})
	}
}
