//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// ipvs is the report's text about IPVS, which is not measured.
//
//go:embed ipvs.md
var ipvs string

func (r report) kernel(w *strings.Builder) {
	fmt.Fprintf(w, `## Kernel modes

The kernel carries the connections by rules that portald writes: iptables with iptables-nft, nftables over netlink. Each
Service has %d endpoints of its own, spread over the %d nodes of a cluster, and a ClusterIP drawn at random from a /12.
portald reads the objects from manifests; the time from start to healthy includes that. A change of endpoints replaces all
%[1]d; a change of a Service changes its port. Both are measured twice: inside portald by its own metric, and from the
rename of the manifest until a client gets an answer that shows the new state.

For comparison, the table shows how long the host's own command, iptables-nft-restore or nft -f, takes to load the same
rules (as portald render prints them) on a node without rules, and how long it takes to add one more rule, to which
nothing leads, to the same table. portald uses that command for iptables, so no iptables change can take less. New
connections go to Services drawn at random, with one request and response each.

`, each, nodes)
	r.floors(w, kernelOf)
	w.WriteString("### Medians\n\nIn parentheses: the ratio to the row with the fewest Services.\n\n")
	r.sizes(w)
	w.WriteString("### IPVS\n\n" + ipvs)
}

// sizes writes the table of figures by the number of Services.
func (r report) sizes(w *strings.Builder) {
	all := r.among(kernelModes)
	header(w, "medians | Services", all)
	for _, label := range r.sizedLabels() {
		rows := r.sizedBy(label)
		for i, s := range rows {
			fmt.Fprintf(w, "| %s | %s |", label, thousands(s.wl.services))
			for _, c := range all {
				var growth []float64
				if i > 0 {
					growth = ratios(s.of(r, c), rows[0].of(r, c))
				}
				w.WriteString(cell(s.fig, s.of(r, c), growth))
			}
			w.WriteString("\n")
			label = "" // only in the first row
		}
	}
	w.WriteString("\n")
}

// sized is a figure at one number of Services.
type sized struct {
	wl  workload
	fig figure
}

func (s sized) of(r report, c competitor) []float64 { return r.Samples[s.wl.name][c.name][s.fig.name] }

// sizedLabels are the labels of all figures of kernel modes, in the order of the first workload that has them.
func (r report) sizedLabels() (all []string) {
	for _, wl := range r.settings.workloads {
		for _, fig := range wl.figures {
			if kernelOf(wl) && !slices.Contains(all, fig.label) {
				all = append(all, fig.label)
			}
		}
	}
	return all
}

// sizedBy lists the figures with this label, by ascending number of Services.
func (r report) sizedBy(label string) (all []sized) {
	for _, wl := range r.settings.workloads {
		for _, fig := range wl.figures {
			if kernelOf(wl) && fig.label == label && r.telling(wl, fig) {
				all = append(all, sized{wl, fig})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sized) int { return a.wl.services - b.wl.services })
	return all
}
