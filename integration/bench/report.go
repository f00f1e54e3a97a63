//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// report is a finished run.
type report struct {
	Date    string
	Machine machine
	Rounds  int
	Seconds float64 // of one measurement
	Quick   bool
	Took    string
	*results
	settings settings
}

// machine is what the figures depend on.
type machine struct {
	Kernel, CPU string
	Cores       int
	Versions    []string
}

func newReport(ctx context.Context, s settings, r *results, began time.Time) report {
	return report{
		Date: began.UTC().Format(time.DateOnly), Machine: thisMachine(ctx, s), Rounds: s.rounds, Seconds: s.span.Seconds(),
		Quick: s.quick, Took: time.Since(began).Round(time.Second).String(), results: r, settings: s,
	}
}

func thisMachine(ctx context.Context, s settings) machine {
	m := machine{CPU: cpuModel(), Cores: runtime.NumCPU()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	for _, v := range [][]string{{s.portald, "--version"}, {"haproxy", "-v"}, {"nginx", "-v"}, {"iptables", "-V"}} {
		out, err := exec.CommandContext(ctx, v[0], v[1:]...).CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); err == nil && line != "" {
			m.Versions = append(m.Versions, line)
		}
	}
	return m
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if name, value, ok := strings.Cut(in.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// tables are the floors and the medians, in Markdown.
func (r report) tables() string {
	var w strings.Builder
	r.floors(&w)
	r.medians(&w)
	r.errors(&w)
	return w.String()
}

func (r report) errors(w *strings.Builder) {
	for _, e := range r.Errors {
		fmt.Fprintf(w, "\nFailed: %s\n", e)
	}
}

func (r report) floors(w *strings.Builder) {
	w.WriteString("| portald | against | floor | measured | |\n|---|---|---|---|---|\n")
	for _, f := range floors() {
		v, ok := f.value(r.Samples)
		if !ok {
			continue
		}
		mark := map[bool]string{true: "✓", false: "✗"}[f.holds(v)]
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.figureLabel(f), r.competitorLabel(f.against), f, r.measured(f, v), mark)
	}
	w.WriteString("\n")
}

func (r report) measured(f floor, v float64) string {
	if f.against != "" {
		return fmt.Sprintf("%.2f ×", v)
	}
	return fmt.Sprintf("%.*f", r.figure(f).digits, v)
}

func (r report) figure(f floor) figure {
	for _, w := range r.settings.workloads {
		for _, fig := range w.figures {
			if w.name == f.workload && fig.name == f.figure {
				return fig
			}
		}
	}
	return figure{}
}

func (r report) figureLabel(f floor) string { return r.figure(f).label }

func (r report) competitorLabel(name string) string {
	for _, c := range r.settings.competitors {
		if c.name == name {
			return c.label
		}
	}
	return ""
}

func (r report) medians(w *strings.Builder) {
	w.WriteString("| medians |")
	for _, c := range r.settings.competitors {
		fmt.Fprintf(w, " %s |", c.label)
	}
	w.WriteString("\n|---|" + strings.Repeat("---|", len(r.settings.competitors)) + "\n")
	for _, wl := range r.settings.workloads {
		for _, fig := range wl.figures {
			if r.telling(wl, fig) {
				r.row(w, wl, fig)
			}
		}
	}
}

// telling leaves out what nobody measured, and that nothing failed.
func (r report) telling(w workload, fig figure) bool {
	most := -1.0
	for _, f := range r.Samples[w.name] {
		for _, v := range f[fig.name] {
			most = max(most, v)
		}
	}
	return most > 0 || most == 0 && fig.name != "failed"
}

// row is one figure of everyone. In parentheses: portald's ratio to it, the median over the rounds.
func (r report) row(w *strings.Builder, wl workload, fig figure) {
	fmt.Fprintf(w, "| %s |", fig.label)
	own := r.Samples[wl.name]["portald"][fig.name]
	for _, c := range r.settings.competitors {
		all := r.Samples[wl.name][c.name][fig.name]
		ratios := ratios(own, all)
		switch {
		case len(all) == 0, fig.name == "cpu" && c.program == "":
			w.WriteString(" – |")
		case c.name == "portald", len(ratios) == 0:
			fmt.Fprintf(w, " %.*f |", fig.digits, median(all))
		default:
			fmt.Fprintf(w, " %.*f (%.2f) |", fig.digits, median(all), median(ratios))
		}
	}
	w.WriteString("\n")
}

// write puts the report into path.md and the samples into path.json.
func (r report) write(path string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".json", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(path+".md", []byte(r.page()), 0o644)
}

func (r report) page() string {
	var w strings.Builder
	w.WriteString("# Benchmarks\n\n")
	fmt.Fprintf(&w, `Client, node and pod are network namespaces of one machine, joined by veth: all that is measured shares its cores, so
CPU per unit tells more than throughput. Every proxy runs on the node behind the same iptables REDIRECT, on a network of
its own; kernel DNAT has no proxy. Rounds are interleaved, each begun by another; figures are medians of %d rounds of
%g s each, ratios are taken round by round. CPU is that of the proxy's processes alone. portald writes its connection
records. The objects of the memory figures come from a stand-in for an API server. TCP runs with reno on all hosts, since
BBR, where it is the default, holds veth pairs at some 10 Gb/s.

- Date: %s, took %s%s
- Machine: %d cores, %s, Linux %s
- %s
- Run it: `+"`make bench`, or `make bench QUICK=1`"+`; every sample stands in benchmarks.json

`, r.Rounds, r.Seconds, r.Date, r.Took, map[bool]string{true: ", quick", false: ""}[r.Quick],
		r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, strings.Join(r.Machine.Versions, "; "))
	w.WriteString("## Floors\n\n")
	r.floors(&w)
	w.WriteString("## Medians\n\nIn parentheses: portald's ratio to it.\n\n")
	r.medians(&w)
	r.errors(&w)
	return w.String()
}
