package translate

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is an invalid or unsupported value in an object. The rest of the object is served.
type Problem struct {
	Object string // "service shop/cart", "endpointslice shop/cart-x7k2p"
	Field  string // path inside the object, "spec.ports[1].nodePort"
	Value  string // as written, quoted where it is text
	Advice string // why it is refused, and what to write
}

// OfAnnotation tells whether it is an annotation that has no effect, or another one, and returns it in words; else a
// part of the Service is not served.
func (p Problem) OfAnnotation() (text string, is bool) {
	name, is := strings.CutPrefix(p.Field, "metadata.annotations[")
	return fmt.Sprintf("%s: %s %s", strings.TrimSuffix(name, "]"), p.Value, p.Advice), is
}

func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: %s: %s", p.Object, p.Field, p.Value, p.Advice)
}

// report collects the problems of one translation.
type report struct {
	problems []Problem
	left     int // how many more there are
}

// mostProblems is how many problems of one object are told, and mostOfService how many of a Service and its slices: a
// slice may have a thousand endpoints, and a Service thousands of annotations.
const (
	mostProblems  = 16
	mostOfService = 64
)

// objectReport is a report on one object.
type objectReport struct {
	*report
	object string
}

// clone returns a report to which the same was added so far.
func (r *report) clone() *report { return &report{slices.Clone(r.problems), r.left} }

func (r *report) on(object Key) objectReport { return objectReport{r, object.String()} }

func (o objectReport) add(field string, value any, advice string) {
	if len(o.problems) == mostProblems {
		o.left++
		return
	}
	text := fmt.Sprint(value)
	if s, ok := value.(string); ok {
		text = quoted(s)
	}
	o.problems = append(o.problems, Problem{o.object, Truncate(field, mostText), text, advice})
}

// all are the problems of the object, the last of which may stand for others.
func (o objectReport) all() []Problem {
	if o.left == 0 {
		return o.problems
	}
	return append(o.problems, Problem{o.object, "others", fmt.Sprint(o.left),
		"more values are wrong too; correct those above first"})
}

// mostText is how much of a text of an object logs and events show, in bytes.
const mostText = 120

// quoted is text of an object, short enough for logs and events.
func quoted(text string) string {
	return fmt.Sprintf("%q", Truncate(text, mostText))
}

// Truncate shortens text to at most so many bytes.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const dots = "…"
	return strings.ToValidUTF8(text[:most-len(dots)], "") + dots
}
