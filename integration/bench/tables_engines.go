//go:build linux

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// engineText is the report's text about portald's engines.
//
//go:embed engines.md
var engineText string

// origin is a run that measured a part of the report.
type origin struct {
	Date, Took, Version string
	Rounds              int
}

// into returns the report at a path, with the engines of this one in the place of its own.
func (r report) into(path string) (old report, err error) {
	text, err := os.ReadFile(path + ".json")
	if err != nil {
		return old, fmt.Errorf("read the report that the engines are a part of: %w", err)
	}
	old.results = &results{}
	if err := json.Unmarshal(text, &old); err != nil {
		return old, fmt.Errorf("read %s.json: %w", path, err)
	}
	old.settings = r.settings
	old.settings.workloads, old.settings.competitors = workloads(), competitors("")
	old.Engines = &origin{Date: r.Date, Took: r.Took, Version: r.Machine.Versions[0], Rounds: r.Rounds}
	for _, w := range engineWorkloads() {
		delete(old.Samples, w.name)
		if s, ok := r.Samples[w.name]; ok {
			old.Samples[w.name] = s
		}
		old.Errors = slices.DeleteFunc(old.Errors, func(f failure) bool { return f.Workload == w.name })
	}
	old.Errors = append(old.Errors, r.Errors...)
	return old, nil
}

func (r report) engines(w *strings.Builder) {
	w.WriteString("## Engines, and Windows\n\n" + engineText + "\n")
	if o := r.Engines; o != nil {
		fmt.Fprintf(w, "Measured separately: %s, took %s, up to %d rounds, %s; `make bench` measures everything.\n\n",
			o.Date, o.Took, o.Rounds, o.Version)
	}
	r.floors(w, enginesOf)
	w.WriteString("### Medians\n\nIn parentheses: the ratio to the previous column, median and quartiles.\n\n")
	r.medians(w, enginesOf, r.among(engine), r.engineRow)
}

// engineRow is one figure of all engines. In parentheses: the ratio to the one before.
func (r report) engineRow(w *strings.Builder, wl workload, fig figure, all []competitor) {
	fmt.Fprintf(w, "| %s |", fig.label)
	var before []float64
	for _, c := range all {
		own := r.Samples[wl.name][c.name][fig.name]
		if to := ratios(own, before); len(to) > 0 {
			fmt.Fprintf(w, " %.*f (%.2f, %.2f–%.2f) |", fig.digits, median(own), median(to), quantile(to, 0.25),
				quantile(to, 0.75))
		} else {
			w.WriteString(cell(fig, own, nil))
		}
		before = own
	}
	w.WriteString("\n")
}

// quantile is the sample that the share q of all is not above.
func quantile(all []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return s[int(q*float64(len(s)-1)+0.5)]
}
