// Loki answers questions in LogQL by Loki's own engine, of records that would be in Loki: for the test of
// deploy/records.
//
//	loki RECORDS QUERIES     the files: lines of JSON, as Vector's sink sends them; queries.logql
//
// It prints the answer to each query as a line of JSON, [{"labels": …, "value": …, "lines": […]}, …]. It is a module of
// its own, so that the modules of Loki are none of portald's.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/dskit/user"
	"github.com/grafana/loki/v3/pkg/logproto"
	"github.com/grafana/loki/v3/pkg/logql"
	"github.com/grafana/loki/v3/pkg/logqlmodel"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(records, queries string) error {
	streams, end, err := read(records)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(queries)
	if err != nil {
		return err
	}
	engine := logql.NewEngine(logql.EngineOpts{}, logql.NewMockQuerier(0, streams), logql.NoLimits, log.NewNopLogger())
	for query := range strings.SplitSeq(string(text), "\n\n") {
		if query = withoutComments(query); query == "" {
			continue
		}
		if err := ask(engine, query, end); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return nil
}

func withoutComments(query string) string {
	lines := slices.DeleteFunc(strings.Split(query, "\n"), func(l string) bool { return strings.HasPrefix(l, "#") })
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// read returns the streams that Loki has of some records, by the labels of vector.yaml, and a time behind the last.
func read(path string) (streams []logproto.Stream, end time.Time, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, end, err
	}
	byLabels := map[string]*logproto.Stream{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			Time    time.Time
			OnNode  string `json:"on_node"`
			Service string
			Outcome string
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, end, fmt.Errorf("%s: %w", path, err)
		}
		of := labels.FromStrings("app", "portald", "on_node", r.OnNode, "service", r.Service, "outcome", r.Outcome).String()
		if byLabels[of] == nil {
			byLabels[of] = &logproto.Stream{Labels: of}
		}
		byLabels[of].Entries = append(byLabels[of].Entries, logproto.Entry{Timestamp: r.Time, Line: lines.Text()})
		if r.Time.After(end) {
			end = r.Time
		}
	}
	for _, s := range byLabels {
		slices.SortFunc(s.Entries, func(a, b logproto.Entry) int { return a.Timestamp.Compare(b.Timestamp) })
		streams = append(streams, *s)
	}
	return streams, end.Add(time.Second), lines.Err()
}

// answer is one series, or the lines of one stream.
type answer struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
	Lines  []string          `json:"lines,omitempty"`
}

func ask(engine *logql.QueryEngine, query string, end time.Time) error {
	begin, step := end, time.Duration(0)
	if strings.HasPrefix(query, "{") { // of lines
		begin, step = end.Add(-time.Hour), time.Minute
	}
	params, err := logql.NewLiteralParams(query, begin, end, step, 0, logproto.FORWARD, 1000, nil, nil)
	if err != nil {
		return err
	}
	result, err := engine.Query(params).Exec(user.InjectOrgID(context.Background(), "portald"))
	if err != nil {
		return err
	}
	all := []answer{}
	switch data := result.Data.(type) {
	case promql.Vector:
		for _, s := range data {
			all = append(all, answer{Labels: s.Metric.Map(), Value: s.F})
		}
	case logqlmodel.Streams:
		for _, s := range data {
			one := answer{Labels: map[string]string{"stream": s.Labels}}
			for _, e := range s.Entries {
				one.Lines = append(one.Lines, e.Line)
			}
			all = append(all, one)
		}
	default:
		return fmt.Errorf("the answer is a %T", data)
	}
	slices.SortFunc(all, func(a, b answer) int { return cmp.Compare(b.Value, a.Value) })
	return json.NewEncoder(os.Stdout).Encode(all)
}
