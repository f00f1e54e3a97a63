package doctor

import (
	"fmt"
	"strings"
)

// result is the outcome of a check: problems, or that all is well, or why it is not known.
type result struct {
	ok       string
	problems []problem
	unknown  error
}

// problem is one thing that is not as it should be.
type problem struct {
	seen     string
	do       string   // empty: the check's
	severity Severity // empty: the check's
}

// well reports that nothing is wrong, with what was seen.
func well(format string, args ...any) result { return result{ok: fmt.Sprintf(format, args...)} }

// unknown reports that it could not be examined.
func unknown(err error) result { return result{unknown: err} }

// wrong reports one problem.
func wrong(do, format string, args ...any) result {
	return result{problems: []problem{{seen: fmt.Sprintf(format, args...), do: do}}}
}

// as sets the severity of all problems.
func (r result) as(s Severity) result {
	for i := range r.problems {
		r.problems[i].severity = s
	}
	return r
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

// firstOf keeps the first problems and says how many more there are.
func (r result) firstOf(what string) result {
	const most = 10
	if more := len(r.problems) - most; more > 0 {
		r.problems = append(r.problems[:most], problem{seen: fmt.Sprintf("the same of %d more %s", more, what)})
	}
	return r
}

// The shares of a limit from which on it is nearly reached, and as good as reached, in percent.
const (
	nearly = 80
	almost = 95
)

// full is an error or a warning by the share of a limit that is used, in percent.
func full(used int, seen, do string) result {
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
