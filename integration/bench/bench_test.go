//go:build linux

package main

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/portald/portald/integration/load"
	"github.com/portald/portald/integration/topology"
)

// The test binary stands in for the program: it is the load client and server of its own beds.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "load" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := load.Command(ctx, os.Args[2:], os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	topology.Enter()
	os.Exit(m.Run())
}

// Each competitor carries each workload for a moment, and every figure of it has a sane value.
func TestEveryFigureIsMeasured(t *testing.T) {
	topology.Require(t, "haproxy", "nginx", "iptables-restore", "go")
	l := &lab{dir: t.TempDir(), portald: build(t), self: self(t), beds: map[string]*bed{}}
	p := plan{competitors: competitors(), rounds: 1, span: 50 * time.Millisecond, quick: true, idleConns: 50}
	p.workloads = append(trafficWorkloads(), idleWorkload(), manyWorkload(20), syncWorkload(20), memoryWorkload(20, 5))
	r, err := p.run(t.Context(), l)
	if err := errors.Join(err, l.close()); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Errors {
		t.Error(f)
	}
	for _, w := range p.workloads {
		for _, c := range p.among(w) {
			for _, fig := range w.figures {
				v := r.Samples[w.name][c.name][fig.name]
				zero := fig.name == "failed" || fig.name == "cpu" && c.program == ""
				if fig.name == "kB" && len(v) == 1 && !math.IsNaN(v[0]) {
					continue // what a process gives back meanwhile may outweigh a few connections
				}
				if len(v) != 1 || math.IsNaN(v[0]) || v[0] < 0 || (v[0] == 0) != zero {
					t.Errorf("%s, %s, %s: %v", w.name, c.name, fig.name, v)
				}
			}
		}
	}
}

func self(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "portald")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/portald").CombinedOutput(); err != nil {
		t.Fatalf("build portald: %v\n%s", err, out)
	}
	return path
}

func TestCPUOfAnotherProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while :; do i=$((i+1)); done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{proxy: p}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		used, err := b.cpu()
		if err != nil {
			t.Fatal(err)
		}
		if used > 10*time.Millisecond {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a busy process used %v", used)
		}
	}
	if f, err := b.footprint(); err != nil || f.bytes < 4096 || f.descriptors < 3 {
		t.Errorf("footprint %+v, %v", f, err)
	}
	b.down()
	if p.running() {
		t.Error("it still runs")
	}
}

func TestManifestsAreReadable(t *testing.T) {
	var w strings.Builder
	addrs := drawn(1000)
	object(&w, "x", addrs[0], []port{{"echo", "TCP", echoPort}, {"echo-udp", "UDP", echoPort}}, addrs[1])
	docs := strings.Split(strings.TrimPrefix(w.String(), "---\n"), "---\n")
	if len(docs) != 2 {
		t.Fatalf("%d documents", len(docs))
	}
	for _, d := range docs {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(d), &object); err != nil || object["kind"] == nil {
			t.Errorf("%v: %s", err, d)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	if n := len(slices.Compact(addrs)); n != 1000 {
		t.Errorf("%d addresses of 1000 differ", n)
	}
}

func TestFloors(t *testing.T) {
	all := samples{}
	for i, v := range []float64{10, 20, 60} {
		all.add("bulk1", "portald", "gbps", v)
		all.add("bulk1", "dnat", "gbps", []float64{10, 10, 20}[i])
	}
	f := floor{workload: "bulk1", figure: "gbps", against: "dnat", bound: 2, strict: true}
	if v, ok := f.value(all); !ok || v != 2 || f.holds(v) {
		t.Errorf("value %v %v, holds %v: want a median ratio of 2 that does not hold", v, ok, f.holds(v))
	}
	f.strict = false
	if !f.holds(2) || f.holds(1.9) || f.String() != "≥ 2 ×" {
		t.Errorf("%v holds 2: %v", f, f.holds(2))
	}
	f = floor{bound: 8, most: true}
	if !f.holds(8) || f.holds(8.1) || f.String() != "≤ 8" {
		t.Errorf("%v holds 8: %v", f, f.holds(8))
	}
}

// Every floor names a workload, a figure and a competitor there is.
func TestFloorsAreMeasured(t *testing.T) {
	r := report{settings: settings{plan: plan{workloads: workloads(), competitors: competitors()}}}
	for _, f := range floors() {
		if r.figureLabel(f) == "" {
			t.Errorf("no figure %s of %s", f.figure, f.workload)
		}
		if f.against != "" && r.competitorLabel(f.against) == "" {
			t.Errorf("no competitor %s", f.against)
		}
	}
}

func TestReport(t *testing.T) {
	s := settings{plan: plan{workloads: workloads()[:1], competitors: competitors()[:2], rounds: 2, span: time.Second}}
	res := &results{Samples: samples{}}
	res.Samples.add("bulk1", "portald", "gbps", 30)
	res.Samples.add("bulk1", "haproxy-splice", "gbps", 20)
	res.add(s.workloads[0], s.competitors[1], nil, errors.New("it broke"))
	path := filepath.Join(t.TempDir(), "b")
	if err := newReport(t.Context(), s, res, time.Now()).write(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path + ".md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| bulk, 1 stream, Gb/s | HAProxy, splicing | ≥ 1.3 × | 1.50 × | ✓ |",
		"| bulk, 1 stream, Gb/s | 30.0 | 20.0 (1.50) |", "Failed: bulk1, haproxy-splice: it broke",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if raw, err := os.ReadFile(path + ".json"); err != nil || !strings.Contains(string(raw), `"haproxy-splice"`) {
		t.Errorf("raw: %v %s", err, raw)
	}
}

func TestChoose(t *testing.T) {
	got, err := choose(competitors(), "dnat,portald")
	if err != nil || names(got) != "portald,dnat" {
		t.Errorf("chose %s, %v", names(got), err)
	}
	if _, err := choose(workloads(), "bulk1,nope"); err == nil {
		t.Error("an unknown name was taken")
	}
}

func TestRotated(t *testing.T) {
	all := []competitor{{name: "a"}, {name: "b"}, {name: "c"}}
	var got []string
	for round := range 4 {
		for _, c := range rotated(all, round) {
			got = append(got, c.name)
		}
	}
	if want := "abcbcacababc"; strings.Join(got, "") != want {
		t.Errorf("order %v, want %s", got, want)
	}
}
