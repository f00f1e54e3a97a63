package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/cmd/portald/inspect/merge"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/explain"
)

// askReport asks one daemon for a report.
type askReport func(context.Context, *adminsocket.Client) (explain.Report, error)

// explainNodes prints what each node says: the verdicts of all, and all of the report of one with the worst.
func explainNodes(cmd *cobra.Command, dial *Dial, ask askReport, what string, asJSON bool) error {
	nodes, err := dial.Nodes(cmd.Context())
	if err != nil {
		return fmt.Errorf("%w: %w", adminsocket.ErrNotReachable, err)
	}
	reports, err := dial.reports(cmd.Context(), nodes, ask)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if asJSON {
		text, err := json.MarshalIndent(reports, "", "  ")
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", printable.JSON(text))
		}
		return err
	}
	if _, err := out.Write(newSheet(out).reports(reports, what)); err != nil {
		return err
	}
	if !reports[0].Known() {
		return nothing("explain: no node knows %s", printable.Text(what))
	}
	return nil
}

// explainWait is as long as a daemon that is short of CPU may take to list what its host has, which it bounds by
// itself.
const explainWait = 30 * time.Second

// reports returns the reports of the nodes that answer in time, the worst first; those that know nothing only if no
// node knows anything.
func (d *Dial) reports(ctx context.Context, nodes []cluster.Node, ask askReport) ([]explain.Report, error) {
	answers, errs := make([]*explain.Report, len(nodes)), make([]error, len(nodes))
	limit := d.cluster.wait
	if !d.cluster.waitGiven() {
		limit = explainWait
	}
	waiting := time.AfterFunc(merge.DefaultWait, func() {
		fmt.Fprintf(d.cluster.errOut(), "Waiting for nodes that are slow, %s at most.\n", limit)
	})
	defer waiting.Stop()
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			report, err := ask(limited, n.Client)
			switch {
			case err == nil:
				answers[i] = &report
			case limited.Err() != nil && ctx.Err() == nil:
				errs[i] = fmt.Errorf("no answer within %s (--node-timeout)", limit)
			default:
				errs[i] = err
			}
		})
	}
	all.Wait()
	var reports []explain.Report
	known := false
	for _, r := range answers {
		if r != nil {
			reports, known = append(reports, *r), known || r.Known()
		}
	}
	if len(reports) == 0 {
		return nil, fmt.Errorf("%s: %w", nodes[0].Name, cmp.Or(errs[0], ctx.Err()))
	}
	for i, err := range errs {
		if err != nil {
			d.cluster.failed(nodes[i].Name, err)
		}
	}
	if known {
		reports = slices.DeleteFunc(reports, func(r explain.Report) bool { return !r.Known() })
	}
	slices.SortStableFunc(reports, func(a, b explain.Report) int { return cmp.Compare(worse(b), worse(a)) })
	return reports, nil
}

// worse ranks reports.
func worse(r explain.Report) int {
	return slices.Index([]explain.Status{explain.Fact, explain.Good, explain.Doubt, explain.Wrong}, r.Verdict.Status)
}

// reports are the verdicts of several nodes, and all that the first one says unless that is well.
func (s sheet) reports(all []explain.Report, what string) (b []byte) {
	b = append(b, fmt.Sprintf("%s on %s\n\n", printable.Text(what), counted(len(all), "node"))...)
	for _, same := range byVerdict(all) {
		nodes := make([]string, len(same))
		for i := range same {
			nodes[i] = same[i].Node
		}
		b = append(b, printable.Text(strings.Join(nodes, ", "))...)
		if slices.ContainsFunc(same, func(r explain.Report) bool { return r.Verdict.Text != same[0].Verdict.Text }) {
			b = append(b, " (the figures are of "+printable.Text(nodes[0])+")"...)
		}
		b = s.line(append(b, "\n  "...), same[0].Verdict)
		b = s.notes(b, same)
	}
	worst := &all[0]
	if len(all) == 1 || worse(*worst) > worse(explain.Report{Verdict: explain.Line{Status: explain.Good}}) {
		return append(append(b, '\n'), s.report(worst)...)
	}
	return append(b, "\n  --on-node "+printable.Text(worst.Node)+" prints what it rests on.\n"...)
}

// notes appends those of reports that are not printed as a whole.
func (s sheet) notes(b []byte, of []explain.Report) []byte {
	for i := range of {
		if of[i].Verdict.Status != explain.Good {
			continue
		}
		before := of[i].Node + ": "
		for _, note := range of[i].Notes() {
			b = append(b, "    "+printable.Text(before+note.Text)+"\n"...)
			before = "  "
		}
	}
	return b
}

// figures match what differs between nodes with the same verdict: counts, times and durations.
var figures = regexp.MustCompile(`\b\d+ of \d+\b|\bin the last \S+|\b\d\d:\d\d:\d\d\b|\b(\d+(\.\d+)?(ns|µs|ms|s|m|h))+\b`)

// byVerdict groups reports with the same verdict but for figures, in their order.
func byVerdict(all []explain.Report) (groups [][]explain.Report) {
	at := map[string]int{}
	for _, r := range all {
		key := string(r.Verdict.Status) + figures.ReplaceAllString(r.Verdict.Text, "#")
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}
