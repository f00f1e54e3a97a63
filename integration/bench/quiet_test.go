//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestDisturbance(t *testing.T) {
	began, err := parseCPUTimes("cpu  100 0 50 800 50 0 0 10 7 0\ncpu0 50 0 25 400 25 0 0 5 0 0\n")
	if want := (cpuTimes{all: 1010, idle: 850, stolen: 10}); err != nil || began != want {
		t.Fatalf("%+v, %v, want %+v", began, err, want)
	}
	for _, c := range []struct {
		name string
		busy float64
		now  cpuTimes
		want string
	}{
		{"quiet", 0.05, cpuTimes{all: 2010, idle: 900, stolen: 20}, ""},
		{"busy before", 0.06, cpuTimes{all: 2010, idle: 900, stolen: 10}, "other programs used 6 % of its CPUs"},
		{"stolen", 0.01, cpuTimes{all: 2010, idle: 900, stolen: 25}, "took 1.5 % of its CPU time during the run"},
		{"over at once", 0, began, ""},
	} {
		got := calm{busy: c.busy, began: began}.disturbance(c.now)
		if got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if _, err := parseCPUTimes("intr 1 2 3\n"); err == nil || !strings.Contains(err.Error(), "intr 1 2 3") {
		t.Errorf("another first line: %v", err)
	}
}

// The report of a machine that was not quiet says so in its head.
func TestReportOfADisturbedMachine(t *testing.T) {
	r := report{results: &results{}}
	if strings.Contains(r.page(), "quiet") {
		t.Error("a quiet machine is said not to be")
	}
	r.Disturbed = "somebody compiled"
	if !strings.Contains(r.page(), "**the machine was not quiet**: somebody compiled") {
		t.Errorf("the page does not say it:\n%s", r.page())
	}
}
