package doctor

import (
	"fmt"
	"strings"
)

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

// firstOf keeps the first findings of a list and says how many more there are.
func (l looked) firstOf(what string) looked {
	const most = 10
	if more := len(l.found) - most; more > 0 {
		l.found = append(l.found[:most], found{seen: fmt.Sprintf("the same of %d more %s", more, what)})
	}
	return l
}

// The shares of a limit from which on it is nearly reached, and as good as reached, in percent.
const (
	nearly = 80
	almost = 95
)

// full is an error or a warning by the share of a limit that is used, in percent.
func full(used int, seen, do string) looked {
	switch {
	case used >= almost:
		return wrong(do, "%s", seen)
	case used >= nearly:
		return wrong(do, "%s", seen).as(Warning)
	}
	return well("%s", seen)
}

func percent(part, of int) int {
	if of <= 0 {
		return 0
	}
	return int(int64(part) * 100 / int64(of))
}
