package metrics

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	manual   = "../../docs/metrics.md"
	tableHas = "<!-- made from the metrics: UPDATE_GOLDEN=1 go test ./proxy/metrics -->\n"
	tableEnd = "<!-- end of what is made -->\n"
)

// The table of the manual is made from the metrics. UPDATE_GOLDEN=1 writes it again.
func TestManualHasEveryMetric(t *testing.T) {
	m := exercised(t)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	table, shown := "| metric | type | labels | meaning |\n|---|---|---|---|\n", map[string]bool{}
	for _, f := range families {
		if shown[f.GetName()] = true; strings.HasPrefix(f.GetName(), "portald_") {
			table += row(f)
		}
	}
	for _, name := range described(m.registry) {
		if strings.HasPrefix(name, "portald_") && !shown[name] {
			t.Errorf("%s has no series in this test: exercise it", name)
		}
	}
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), tableHas)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", manual)
	}
	want := before + tableHas + table + tableEnd + after
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Errorf("the table is not that of the metrics (-want +got)\n%s", d)
	}
}

// row is a metric in the table.
func row(f *dto.MetricFamily) string {
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, "`"+l.GetName()+"`")
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n",
		f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " "), f.GetHelp())
}

// described lists the names of all metrics, with series or without.
func described(r *prometheus.Registry) (names []string) {
	to := make(chan *prometheus.Desc)
	go func() {
		r.Describe(to)
		close(to)
	}()
	name := regexp.MustCompile(`fqName: "([^"]*)"`)
	for d := range to {
		names = append(names, name.FindStringSubmatch(d.String())[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Alerts and the dashboard ask for metrics that there are.
func TestAlertsAndDashboardKnowTheMetrics(t *testing.T) {
	known := described(exercised(t).registry)
	part := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, file := range []string{"prometheus/rules.yaml", "grafana/portald.json"} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bportald_[a-z_]+`).FindAllString(string(text), -1)
		for _, name := range names {
			if !slices.Contains(known, name) && !slices.Contains(known, part.ReplaceAllString(name, "")) {
				t.Errorf("deploy/%s asks for %s, which there is not", file, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("deploy/%s asks for nothing", file)
		}
	}
}
