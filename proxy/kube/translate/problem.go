package translate

import (
	"fmt"
	"strings"
)

// Problem is an invalid or unsupported value in an object. The rest of the object is served.
type Problem struct {
	Object string // "service shop/cart", "endpointslice shop/cart-x7k2p"
	Field  string // path inside the object, "spec.ports[1].nodePort"
	Value  string // as written, quoted where it is text
	Advice string // why it is refused, and what to write
}

func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: %s: %s", p.Object, p.Field, p.Value, p.Advice)
}

// report collects the problems of one translation.
type report struct{ problems []Problem }

// objectReport is a report on one object.
type objectReport struct {
	*report
	object string
}

func (r *report) on(object Key) objectReport { return objectReport{r, object.String()} }

func (o objectReport) add(field string, value any, advice string) {
	text := fmt.Sprint(value)
	if s, ok := value.(string); ok {
		text = quoted(s)
	}
	o.problems = append(o.problems, Problem{o.object, field, text, advice})
}

// quoted is text of an object, short enough for logs and events.
func quoted(text string) string {
	const most = 120
	return fmt.Sprintf("%q", Truncate(text, most))
}

// Truncate shortens text to at most so many bytes.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const dots = "…"
	return strings.ToValidUTF8(text[:most-len(dots)], "") + dots
}
