//go:build linux

package main

import (
	"fmt"
	"strings"
)

// flows writes what the records cost.
func (r report) flows(w *strings.Builder) {
	w.WriteString(`## Records of the kernel's connections

Short connections in nftables mode, 16 at once. Their conntrack entries end one second later, so the kernel reports their
ends during the measurement. In parentheses: the ratio to the rate without records.

`)
	r.medians(w, flowsOf, r.among(recordsOfFlows), r.flowsRow)
}

func (r report) flowsRow(w *strings.Builder, wl workload, fig figure, all []competitor) {
	fmt.Fprintf(w, "| %s |", fig.label)
	without := r.Samples[wl.name][recordingFlows("off").name][fig.name]
	for i, c := range all {
		own := r.Samples[wl.name][c.name][fig.name]
		if i == 0 || fig.name != "rate" {
			w.WriteString(cell(fig, own, nil))
		} else {
			w.WriteString(cell(fig, own, ratios(own, without)))
		}
	}
	w.WriteString("\n")
}
