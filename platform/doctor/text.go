package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/portald/portald/platform/printable"
)

// Style is how a report is printed.
type Style struct {
	Color   bool
	ASCII   bool // no other characters
	Verbose bool // also what is well
}

// Text prints the report for people: each finding with why it matters and what to do, and a summary.
func (r *Report) Text(w io.Writer, s Style) error {
	var out strings.Builder
	for _, f := range r.Findings {
		if f.Severity == OK && !s.Verbose {
			continue
		}
		fmt.Fprintf(&out, "%s %s: %s\n", s.sign(f.Severity), f.Check, printable.Text(f.Seen))
		if f.Severity != OK {
			fmt.Fprintf(&out, "    why: %s\n    do:  %s\n", f.Why, printable.Text(f.Do))
		}
	}
	r.notChecked(&out, s)
	fmt.Fprintln(&out, r.summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// notChecked prints a line for each reason.
func (r *Report) notChecked(out *strings.Builder, s Style) {
	var reasons []string
	checks := map[string][]string{}
	for _, n := range r.NotChecked {
		if checks[n.Why] == nil {
			reasons = append(reasons, n.Why)
		}
		checks[n.Why] = append(checks[n.Why], n.Check)
	}
	for _, why := range reasons {
		fmt.Fprintf(out, "%s not checked, because %s: %s\n", s.sign(""), printable.Text(why), strings.Join(checks[why], ", "))
	}
}

func (r *Report) summary() string {
	text := fmt.Sprintf("%s, %s, %s, %d ok", count(r.Count(Error), "error"), count(r.Count(Warning), "warning"),
		count(r.Count(Note), "note"), r.Count(OK))
	if n := len(r.NotChecked); n > 0 {
		text += fmt.Sprintf(", %d not checked", n)
	}
	if r.Daemon != "" {
		text += "; " + printable.Text(r.Daemon)
	}
	if r.System != linux {
		text += "; only some checks exist for " + r.System
	}
	return text
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// sign is the mark of a severity; empty is what was not looked at.
func (s Style) sign(of Severity) string {
	const red, yellow, green, plain = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
	m := map[Severity]struct{ sign, ascii, color string }{
		OK: {"✓", "ok", green}, Note: {"·", "--", ""}, Warning: {"!", "!!", yellow}, Error: {"✗", "XX", red},
		"": {"?", "??", ""},
	}[of]
	sign := m.sign
	if s.ASCII {
		sign = m.ascii
	}
	if s.Color && m.color != "" {
		return m.color + sign + plain
	}
	return sign
}
