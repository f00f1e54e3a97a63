//go:build linux

package main

import (
	"fmt"
	"strings"
)

// tables returns the floors and the medians as Markdown.
func (r report) tables() string {
	var w strings.Builder
	if r.measured(userspaceOf) {
		r.userspace(&w)
	}
	if r.measured(enginesOf) {
		r.engines(&w)
	}
	if r.measured(kernelOf) {
		r.kernel(&w)
	}
	if r.measured(flowsOf) {
		r.flows(&w)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(&w, "\nFailed: %s\n", e)
	}
	return w.String()
}

// The parts of the report.
func userspaceOf(w workload) bool { return w.services == 0 && !w.engines && !flowsOf(w) }
func enginesOf(w workload) bool   { return w.engines }
func kernelOf(w workload) bool    { return w.services > 0 }
func flowsOf(w workload) bool     { return w.group == flowsGroup }

func (r report) measured(part func(workload) bool) bool {
	for _, w := range r.settings.workloads {
		if part(w) && len(r.Samples[w.name]) > 0 {
			return true
		}
	}
	return false
}

func (r report) userspace(w *strings.Builder) {
	w.WriteString(`## Userspace mode

Each proxy has a network of its own and runs on the node there, behind the same iptables REDIRECT rule; kernel DNAT has
no proxy. CPU is the CPU time of the proxy's processes alone. portald writes its connection records, except in the column
"no records". For the memory figures, a stand-in for an API server supplies the objects.

`)
	r.floors(w, userspaceOf)
	w.WriteString("### Medians\n\nIn parentheses: portald's figure divided by this one.\n\n")
	r.medians(w, userspaceOf, r.among(withRetried), r.row)
}

// floors writes the table of the floors whose workloads belong to a part and were measured.
func (r report) floors(w *strings.Builder, part func(workload) bool) {
	heading := "### Targets\n\n| portald | compared with | target | measured | |\n|---|---|---|---|---|\n"
	for _, f := range floors() {
		of, _ := r.workload(f.workload)
		v, ok := f.value(r.Samples)
		if !ok || !part(of) {
			continue
		}
		mark := map[bool]string{true: "✓", false: "✗"}[f.satisfied(v)]
		fmt.Fprintf(w, "%s| %s | %s | %s | %s | %s |\n",
			heading, r.figureLabel(f), r.againstLabel(f), f, r.value(f, v), mark)
		heading = ""
	}
	if heading == "" {
		w.WriteString("\n")
	}
}

func (r report) value(f floor, v float64) string {
	if f.ratio() {
		return fmt.Sprintf("%.2f ×", v)
	}
	fig, _ := r.figure(f)
	return fmt.Sprintf("%.*f", fig.digits, v)
}

func (r report) workload(name string) (workload, bool) {
	for _, w := range r.settings.workloads {
		if w.name == name {
			return w, true
		}
	}
	return workload{}, false
}

func (r report) figure(f floor) (figure, bool) {
	w, _ := r.workload(f.workload)
	for _, fig := range w.figures {
		if fig.name == f.figure {
			return fig, true
		}
	}
	return figure{}, false
}

// figureLabel names the figure of a floor; in kernel modes with the mode and the number of Services.
func (r report) figureLabel(f floor) string {
	fig, _ := r.figure(f)
	if f.engine != "" {
		return f.engine + " engine, " + fig.label
	}
	if f.of == userspace {
		return fig.label
	}
	w, _ := r.workload(f.workload)
	return fmt.Sprintf("%s, %s, %s", portaldIn(f.of).label, servicesLabel(w.services), fig.label)
}

// againstLabel names the reference of a floor's ratio.
func (r report) againstLabel(f floor) string {
	if w, ok := r.workload(f.beside); ok {
		return servicesLabel(w.services)
	}
	for _, c := range r.settings.competitors {
		if c.name == f.against {
			return c.label
		}
	}
	return ""
}

func servicesLabel(n int) string {
	if n == 1 {
		return "1 Service"
	}
	return thousands(n) + " Services"
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// medians writes the table of a part of the report.
func (r report) medians(w *strings.Builder, part func(workload) bool, columns []competitor,
	row func(*strings.Builder, workload, figure, []competitor)) {
	header(w, "medians", columns)
	for _, wl := range r.settings.workloads {
		for _, fig := range wl.figures {
			if part(wl) && r.telling(wl, fig) {
				row(w, wl, fig, columns)
			}
		}
	}
	w.WriteString("\n")
}

func (r report) among(which func(competitor) bool) (all []competitor) {
	for _, c := range r.settings.competitors {
		if which(c) {
			all = append(all, c)
		}
	}
	return all
}

func header(w *strings.Builder, first string, columns []competitor) {
	fmt.Fprintf(w, "| %s |", first)
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.label)
	}
	w.WriteString("\n|" + strings.Repeat("---|", strings.Count(first, "|")+1+len(columns)) + "\n")
}

// telling is false for a figure without samples, and for failure rates that are all zero.
func (r report) telling(w workload, fig figure) bool {
	most := -1.0
	for _, f := range r.Samples[w.name] {
		for _, v := range f[fig.name] {
			most = max(most, v)
		}
	}
	return most > 0 || most == 0 && fig.name != "failed"
}

// row is one figure of all competitors. In parentheses: the median over the rounds of portald's ratio to it.
func (r report) row(w *strings.Builder, wl workload, fig figure, all []competitor) {
	fmt.Fprintf(w, "| %s |", fig.label)
	own := r.Samples[wl.name]["portald"][fig.name]
	for _, c := range all {
		other := r.Samples[wl.name][c.name][fig.name]
		switch {
		case fig.name == "cpu" && c.program == "":
			w.WriteString(" – |")
		case c.name == "portald":
			w.WriteString(cell(fig, other, nil))
		default:
			w.WriteString(cell(fig, other, ratios(own, other)))
		}
	}
	w.WriteString("\n")
}

// cell is the median of a figure, with the median of the ratios in parentheses if there are any.
func cell(fig figure, all, ratios []float64) string {
	switch {
	case len(all) == 0:
		return " – |"
	case len(ratios) == 0:
		return fmt.Sprintf(" %.*f |", fig.digits, median(all))
	}
	return fmt.Sprintf(" %.*f (%.2f) |", fig.digits, median(all), median(ratios))
}
