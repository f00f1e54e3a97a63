//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// report is all that a run has found, as it is written in JSON.
type report struct {
	Began     time.Time `json:"began"`
	Seed      uint64    `json:"seed"`
	Seconds   float64   `json:"seconds"`
	Endpoints int       `json:"endpoints"`
	Readiness float64   `json:"readinessSeconds"` // 0: slices do not follow
	Schedule  []event   `json:"schedule"`
	Results   []result  `json:"results"`
	Late      []string  `json:"late,omitempty"` // endpoints that took longer to settle than the schedule assumes
	Skipped   []string  `json:"skipped,omitempty"`
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// head says under which conditions the figures were taken.
func (r *report) head() string {
	told := "EndpointSlices do not change"
	if r.Readiness > 0 {
		told = fmt.Sprintf("EndpointSlices follow after %g s", r.Readiness)
	}
	return fmt.Sprintf("%d endpoints, %d events in %g s of seed %d; %s.\n",
		r.Endpoints, len(r.Schedule), r.Seconds, r.Seed, told)
}

// tables has one table for each client, a line for each proxy.
func (r *report) tables() string {
	var text strings.Builder
	text.WriteString(r.head())
	var clients []string
	for _, one := range r.Results {
		if !slices.Contains(clients, one.Client) {
			clients = append(clients, one.Client)
		}
	}
	for _, client := range clients {
		text.WriteString("\n" + r.table(client))
	}
	for _, late := range r.Late {
		text.WriteString("\nlate: " + late)
	}
	for _, skipped := range r.Skipped {
		text.WriteString("\nskipped: " + skipped)
	}
	return text.String() + "\n"
}

// table is of one client, in Markdown, with columns of even width.
func (r *report) table(client string) string {
	rows := [][]string{{client, "operations", "failed", "failed connects", "failure kinds", "retried", "p50 ms", "p99 ms",
		"max ms"}}
	for _, one := range r.Results {
		if one.Client == client {
			rows = append(rows, one.row())
		}
	}
	return aligned(rows)
}

func (r result) row() []string {
	return []string{r.Proxy, fmt.Sprint(r.Operations), r.share(), fmt.Sprint(r.Connects), r.kinds(), fmt.Sprint(r.Retried),
		fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.0f", r.P99), fmt.Sprintf("%.0f", r.Max)}
}

// share is the failed operations, and their part of all.
func (r result) share() string {
	if r.Failed == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.1f %%)", r.Failed, 100*float64(r.Failed)/float64(r.Operations))
}

func (r result) kinds() string {
	var all []string
	for _, k := range allKinds {
		if n := r.Kinds[k]; n > 0 {
			all = append(all, fmt.Sprintf("%s %d", k, n))
		}
	}
	return strings.Join(all, ", ")
}

// aligned writes rows as a Markdown table; the first is its head, and most columns are aligned to the right.
func aligned(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell), 3)
		}
	}
	var text strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			if leftward(i) {
				fmt.Fprintf(&text, "| %-*s ", widths[i], cell)
			} else {
				fmt.Fprintf(&text, "| %*s ", widths[i], cell)
			}
		}
		text.WriteString("|\n")
	}
	line(rows[0])
	for i, w := range widths {
		if leftward(i) {
			fmt.Fprintf(&text, "|%s", strings.Repeat("-", w+2))
		} else {
			fmt.Fprintf(&text, "|%s:", strings.Repeat("-", w+1))
		}
	}
	text.WriteString("|\n")
	for _, row := range rows[1:] {
		line(row)
	}
	return text.String()
}

// leftward tells which columns are aligned to the left.
func leftward(column int) bool { return column == 0 || column == 4 }
