//go:build linux

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/portald/portald/integration/load"
)

// engineText is the report's text about portald's engines.
//
//go:embed engines.md
var engineText string

// engineWorkloads are those of the traffic that compare portald's engines: epoll, goroutines, and these on Windows; and
// single exchanges on Linux with client, proxy and server at the same processors for both. Wine has no part in
// exchanges beside uploads, of which one may take as long as the measurement, nor in a flood of UDP flows, of which
// Wine 8.0 loses wakeups.
func engineWorkloads() []workload {
	all := append(trafficWorkloads(), idleWorkload())
	rr1 := slices.IndexFunc(all, func(w workload) bool { return w.name == "rr1" })
	for i, at := range placements() {
		all = slices.Insert(all, rr1+1+i, placedWorkload(at, load.RR{Proto: "tcp", Conns: 1}))
	}
	for i, w := range all {
		onLinux := w.name == "udpnew" || w.placed || strings.HasPrefix(w.name, "beside")
		all[i].name, all[i].engines, all[i].long = "engine-"+w.name, true, true
		all[i].among = func(c competitor) bool { return engine(c) && !(c.windows && onLinux) }
	}
	return all
}

func engine(c competitor) bool { return c.records() && !c.kept && !c.retries && c.path == "" }

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
		fmt.Fprintf(w, "Measured apart from the rest: %s, took %s, up to %d rounds, %s; `make bench` measures all of it.\n\n",
			o.Date, o.Took, o.Rounds, o.Version)
	}
	r.floors(w, enginesOf)
	w.WriteString("### Medians\n\nIn parentheses: the ratio to the column before, median and quartiles.\n\n")
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
