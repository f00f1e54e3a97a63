package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Check looks at one thing. Its texts are those of its findings, and of the manual.
type Check struct {
	Name     string
	Severity Severity // of its findings, unless one is less bad
	System   string   // linux or windows; empty: both
	What     string   // it finds
	Why      string   // that matters
	Do       string   // about it: a command with placeholders in capitals
	look     func(*Facts) looked
}

// looked is what a check saw: findings, or that all is well, or why it is not known.
type looked struct {
	ok      string
	found   []found
	unknown error
}

// found is one thing that is not as it should be.
type found struct {
	seen     string
	do       string   // empty: the check's
	severity Severity // empty: the check's
}

// well is that nothing is wrong, with what was seen.
func well(format string, args ...any) looked { return looked{ok: fmt.Sprintf(format, args...)} }

// unknown is that it could not be looked at.
func unknown(err error) looked { return looked{unknown: err} }

// wrong is one finding.
func wrong(do, format string, args ...any) looked {
	return looked{found: []found{{seen: fmt.Sprintf(format, args...), do: do}}}
}

// as sets the severity of all findings.
func (l looked) as(s Severity) looked {
	for i := range l.found {
		l.found[i].severity = s
	}
	return l
}

// few joins the first words of a list, and says how many there are more.
func few[T any](list []T) string {
	const most = 5
	var out []string
	for _, e := range list[:min(len(list), most)] {
		out = append(out, fmt.Sprint(e))
	}
	text := strings.Join(out, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Checks lists every check of every system, in the order of the manual.
func Checks() []Check {
	return slices.Concat(daemonChecks(), foreignChecks(), ruleChecks(), variantChecks(), kernelChecks(), conntrackChecks(),
		routeChecks(), mtuChecks(), portChecks(), limitChecks(), windowsChecks())
}
