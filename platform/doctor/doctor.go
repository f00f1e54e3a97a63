// Package doctor finds what is wrong with a node that portald serves Services on: settings of the kernel, rules of
// others, limits that are nearly reached, routes, ports. Collect reads Facts from the system, each within a time
// limit; Checks are pure functions of them, whose results make a Report. It changes nothing, and knows of the daemon
// only what a Source tells.
package doctor

import (
	"cmp"
	"runtime"
	"slices"
)

// Finding is the result of one check.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"`
	Why      string   `json:"why,omitempty"` // it matters
	Do       string   `json:"do,omitempty"`  // a command, or what to do
}

// NotChecked is a check that could not be made.
type NotChecked struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// Report has the findings of all checks, the worst first.
type Report struct {
	System     string       `json:"system"` // linux or windows
	Daemon     string       `json:"daemon"` // empty: it did not answer
	Findings   []Finding    `json:"findings"`
	NotChecked []NotChecked `json:"not_checked"`
}

// Checks lists every check of every system, in the order of the manual.
func Checks() []Check {
	return slices.Concat(daemonChecks(), foreignChecks(), socketChecks(), ruleChecks(), variantChecks(), kernelChecks(),
		conntrackChecks(), routeChecks(), mtuChecks(), portChecks(), limitChecks(), windowsChecks())
}

// Examine makes every check of the facts' system.
func Examine(f *Facts) *Report {
	r := &Report{System: cmp.Or(f.System, runtime.GOOS), Daemon: f.Daemon.Value.String(), Findings: []Finding{},
		NotChecked: []NotChecked{}}
	for _, c := range Checks() {
		if c.System == "" || c.System == r.System {
			r.add(c, c.run(f))
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(severities(), b.Severity) - slices.Index(severities(), a.Severity)
	})
	return r
}

func (r *Report) add(c Check, from result) {
	if from.unknown != nil {
		r.NotChecked = append(r.NotChecked, NotChecked{c.Name, from.unknown.Error()})
		return
	}
	if len(from.problems) == 0 {
		r.Findings = append(r.Findings, Finding{Check: c.Name, Severity: OK, Seen: from.ok})
	}
	for _, p := range from.problems {
		r.Findings = append(r.Findings, Finding{
			c.Name, cmp.Or(p.severity, c.Severity), p.seen, c.Why, cmp.Or(p.do, c.Do),
		})
	}
}

// Count returns how many findings have the severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}
