//go:build linux

package main

import (
	"context"
	"encoding/json"
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

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/integration/wine"
)

// serverTime is longer than the longest test: if a pod's server ends earlier, every dial waits for one.
const serverTime = 10 * time.Minute

// TestMain lets the test binary run as what its beds start of it.
func TestMain(m *testing.M) {
	if run, ok := part(); ok {
		ctx, cancel := context.WithTimeout(context.Background(), serverTime)
		defer cancel()
		if err := run(ctx); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	topology.Enter()
	os.Exit(m.Run())
}

// Each competitor runs each workload briefly, and every figure has a plausible value.
func TestEveryFigureIsMeasured(t *testing.T) {
	topology.Require(t, "haproxy", "nginx", "iptables-restore", "nft", "go")
	l := &lab{dir: t.TempDir(), portald: build(t), self: self(t), beds: map[string]*bed{}}
	p := plan{competitors: competitors(""), rounds: 1, span: 200 * time.Millisecond, quick: true, idleConns: 50}
	if wine.Check() != nil {
		p.competitors = slices.DeleteFunc(p.competitors, func(c competitor) bool { return c.windows })
	}
	p.workloads = append(append(trafficWorkloads(), engineWorkloads()...), idleWorkload(), tailWorkload(),
		manyWorkload(20),
		syncWorkload(20), memoryWorkload(20, 5), kernelWorkload(20, 1), connectWorkload(1), connectWorkload(20))
	if err := p.build(t.Context(), l); err != nil {
		t.Fatal(err)
	}
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
					continue // memory that the process frees meanwhile can exceed that of a few connections
				}
				if fig.name == "failed" && c.windows || fig.name == "lost" && len(v) == 1 && v[0] >= 0 {
					continue // in so short a time Wine may not answer all that it was asked; datagrams may be lost
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
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "../../cmd/portald")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build, whose objects are in the cache
	if out, err := cmd.CombinedOutput(); err != nil {
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
	object(&w, "x", addrs[0], []port{{"echo", "TCP", echoPort}, {"echo-udp", "UDP", echoPort}},
		[]endpoint{{addrs[1], "a"}, {addrs[2], "b"}, {addrs[3], "c"}})
	var service corev1.Service
	var slice discoveryv1.EndpointSlice
	read := json.NewDecoder(strings.NewReader(w.String()))
	read.DisallowUnknownFields()
	if err := errors.Join(read.Decode(&service), read.Decode(&slice)); err != nil || read.More() {
		t.Fatalf("%v, more: %v, in\n%s", err, read.More(), &w)
	}
	if service.Kind != "Service" || len(service.Spec.Ports) != 2 || len(slice.Ports) != 2 || len(slice.Endpoints) != 3 {
		t.Errorf("not what was written: %v\n%v", service, slice)
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
	if v, ok := f.value(all); !ok || v != 2 || f.satisfied(v) {
		t.Errorf("value %v %v, holds %v: want a median ratio of 2 that does not hold", v, ok, f.satisfied(v))
	}
	f.strict = false
	if !f.satisfied(2) || f.satisfied(1.9) || f.String() != "≥ 2 ×" {
		t.Errorf("%v holds 2: %v", f, f.satisfied(2))
	}
	f = floor{bound: 8, most: true}
	if !f.satisfied(8) || f.satisfied(8.1) || f.String() != "≤ 8" {
		t.Errorf("%v holds 8: %v", f, f.satisfied(8))
	}
}

// Every floor names an existing workload, figure and competitor.
func TestFloorsAreMeasured(t *testing.T) {
	r := report{settings: settings{plan: plan{workloads: workloads(), competitors: competitors("")}}}
	for _, f := range floors() {
		if _, ok := r.figure(f); !ok {
			t.Errorf("no figure %s of %s", f.figure, f.workload)
		}
		if f.ratio() && r.againstLabel(f) == "" {
			t.Errorf("no competitor %q, no workload %q", f.against, f.beside)
		}
		if w, _ := r.workload(f.workload); kernelOf(w) != (f.of != userspace) {
			t.Errorf("%s, of which a floor of mode %q is, stands in the other part of the report", f.workload, f.of)
		}
	}
}

// A floor of a mode applies only to figures of that mode, and can limit their growth with the number of Services.
func TestFloorsOfModes(t *testing.T) {
	all := samples{}
	for _, v := range []float64{1, 2, 4} {
		all.add("small", "portald-nftables", "ms", v)
		all.add("large", "portald-nftables", "ms", 3*v)
		all.add("large", "portald", "ms", 1000)
	}
	f := atMost(2, "large", "ms").timesAt("small").in("nftables")
	if v, ok := f.value(all); !ok || v != 3 || f.satisfied(v) || f.String() != "≤ 2 ×" {
		t.Errorf("value %v %v of %v, holds %v: want 3, which does not hold", v, ok, f, f.satisfied(v))
	}
	f = below(7, "large", "ms").in("nftables")
	if v, ok := f.value(all); !ok || v != 6 || !f.satisfied(v) || f.String() != "< 7" {
		t.Errorf("value %v %v of %v, holds %v: want 6, which holds", v, ok, f, f.satisfied(v))
	}
	if v, ok := f.in("iptables").value(all); ok {
		t.Errorf("value %v of a mode that was not measured", v)
	}
}

func TestReport(t *testing.T) {
	two, err := choose(competitors(""), "portald,haproxy-splice")
	if err != nil {
		t.Fatal(err)
	}
	s := settings{plan: plan{workloads: workloads()[:1], competitors: two, rounds: 2, span: time.Second}}
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

// A run of the engines alone replaces them in a report, and nothing else.
func TestReportOfEngines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b")
	of := func(all []workload, w, c, figure string, values ...float64) report {
		res := &results{Samples: samples{}}
		for _, v := range values {
			res.Samples.add(w, "portald", figure, 100)
			res.Samples.add(w, c, figure, v)
		}
		s := settings{plan: plan{workloads: all, competitors: competitors(""), rounds: 3, span: time.Second}}
		return newReport(t.Context(), s, res, time.Now())
	}
	old := of(workloads(), "bulk1", "dnat", "gbps", 50)
	old.Samples.add("engine-rr1", "portald-goroutine", "rate", 1)
	old.Errors = []failure{{"engine-rr1", "portald-wine", "it broke"}}
	if err := old.write(path); err != nil {
		t.Fatal(err)
	}
	merged, err := of(engineWorkloads(), "engine-bulk1", "portald-goroutine", "gbps", 60, 70, 90, 95).into(path)
	if err != nil {
		t.Fatal(err)
	}
	page := merged.page()
	for _, want := range []string{
		"| bulk, 1 stream, Gb/s | 100.0 | – | – | – | – | – | – | 50.0 (2.00) |",
		"| goroutine engine, bulk, 1 stream, Gb/s | portald | ≥ 0.8 × | 0.80 × | ✓ |",
		"| bulk, 1 stream, Gb/s | 100.0 | 80.0 (0.80, 0.70–0.90) | – |", "Measured separately: ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "it broke") || merged.Samples["engine-rr1"] != nil {
		t.Errorf("engines of the old report are left in\n%s", page)
	}
}

// All threads of a process move, and can be released again.
func TestMoveProcess(t *testing.T) {
	cpus, err := processors()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	for _, want := range [][]int{cpus[:1], cpus} {
		var set unix.CPUSet
		if err := moveProcess(child.Process.Pid, want); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedGetaffinity(child.Process.Pid, &set); err != nil {
			t.Fatal(err)
		}
		if set.Count() != len(want) || !set.IsSet(want[0]) {
			t.Errorf("moved to %v: runs on %d processors, %x", want, set.Count(), set[0])
		}
	}
}

func TestReportOfKernelModes(t *testing.T) {
	s := settings{plan: plan{workloads: kernelWorkloads(), competitors: competitors(""), rounds: 3, span: time.Second}}
	res := &results{Samples: samples{}}
	for i, w := range []string{"kernel1000", "kernel10000", "kernel30000"} {
		for _, v := range []float64{4, 5, 6} {
			res.Samples.add(w, "portald-iptables", "endpoints", v*float64(i+1))
		}
	}
	res.Samples.add("kernel10000", "portald-nftables", "endpoints", 0.5)
	res.Samples.add("connect1", "portald-nftables", "rate", 20_000)
	res.Samples.add("connect10000", "portald-nftables", "rate", 19_000)
	page := newReport(t.Context(), s, res, time.Now()).page()
	for _, want := range []string{
		"| iptables mode, 10,000 Services, a change of endpoints, ms |  | < 50 | 10.00 | ✓ |",
		"| iptables mode, 30,000 Services, a change of endpoints, ms | 1,000 Services | ≤ 2 × | 3.00 × | ✗ |",
		"| nftables mode, 10,000 Services, a change of endpoints, ms |  | < 1 | 0.50 | ✓ |",
		"| nftables mode, 10,000 Services, new connections per second; 16 at once | 1 Service " +
			"| ≥ 0.9 × | 0.95 × | ✓ |",
		"| medians | Services | iptables mode | nftables mode |\n|---|---|---|---|\n" +
			"| a change of endpoints, ms | 1,000 | 5.00 | – |\n|  | 10,000 | 10.00 (2.00) | 0.50 |\n" +
			"|  | 30,000 | 15.00 (3.00) | – |",
		"IPVS",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "## Userspace") {
		t.Errorf("a part of which nothing was measured is in\n%s", page)
	}
}

// The rounds of a group's workloads are interleaved; a workload with fewer rounds ends earlier.
func TestTurns(t *testing.T) {
	p := plan{rounds: 3, workloads: []workload{
		{name: "a"}, {name: "b"}, {name: "c", group: "g"}, {name: "d", group: "g", most: 1}, {name: "e", group: "h"},
	}}
	var got []string
	for w := range p.turns() {
		got = append(got, w.name)
	}
	if want := "aaabbbcdcceee"; strings.Join(got, "") != want {
		t.Errorf("turns %v, want %s", got, want)
	}
	for range p.turns() {
		break // as one may
	}
}

func TestChoose(t *testing.T) {
	got, err := choose(competitors(""), "dnat,portald")
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
