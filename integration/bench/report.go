//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/portald/portald/platform"
)

// report is a finished run.
type report struct {
	Date    string
	Machine machine
	Rounds  int
	Seconds float64 // of one measurement
	Quick   bool
	Took    string
	// Disturbed says why the machine was not quiet; empty: it was.
	Disturbed string  `json:",omitempty"`
	Engines   *origin `json:",omitempty"` // of the part on engines; nil: that of the rest
	*results
	settings settings
}

// machine describes the hardware, kernel and programs of the run.
type machine struct {
	Kernel, CPU string
	Cores       int
	Versions    []string
}

func newReport(ctx context.Context, s settings, r *results, began time.Time) report {
	return report{
		Date: began.UTC().Format(time.DateOnly), Machine: thisMachine(ctx, s), Rounds: s.rounds,
		Seconds: s.span.Seconds(), Quick: s.quick, Took: time.Since(began).Round(time.Second).String(), results: r,
		settings: s,
	}
}

func thisMachine(ctx context.Context, s settings) machine {
	m := machine{Kernel: platform.Kernel().String(), CPU: cpuModel(), Cores: runtime.NumCPU()}
	for _, v := range [][]string{{s.portald, "--version"}, {"haproxy", "-v"}, {"nginx", "-v"}, {"iptables", "-V"},
		{"nft", "-v"}} {
		out, err := exec.CommandContext(ctx, v[0], v[1:]...).CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); err == nil && line != "" {
			m.Versions = append(m.Versions, line)
		}
	}
	return m
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if name, value, ok := strings.Cut(in.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// write puts the report into path.md and the samples into path.json.
func (r report) write(path string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".json", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(path+".md", []byte(r.page()), 0o644)
}

// disturbed follows how long the run took.
func (r report) disturbed() string {
	if r.Disturbed == "" {
		return ""
	}
	return "; **the machine was not quiet**: " + r.Disturbed
}

func (r report) page() string {
	var w strings.Builder
	fmt.Fprintf(&w, `# Benchmarks

For those who compare the speed and the cost of proxies, or measure them on a machine of their own.

Client, node and pod are network namespaces of one machine, connected by veth. All processes share the cores of that
machine, so CPU time per unit of work tells more than throughput. The proxies are measured in interleaved rounds, and each
round starts with another proxy. Figures are medians of up to %d rounds of %g s each; ratios are computed round by round.

TCP uses reno on all hosts, because BBR, where it is the default, limits veth pairs to about 10 Gb/s. portald's node
otherwise has the kernel's defaults and the settings that portald makes itself. The client, the nodes of the other proxies
and the nodes of portald's other engines have tcp_tw_reuse=1: the client closes first, and the others would run out of
local ports.

- Date: %s, took %s%s%s
- Machine: %d cores, %s, Linux %s
- %s
- Run it: `+"`make bench`, or `make bench QUICK=1`"+`; benchmarks.json has every sample

`, r.Rounds, r.Seconds, r.Date, r.Took, map[bool]string{true: ", quick", false: ""}[r.Quick],
		r.disturbed(),
		r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, strings.Join(r.Machine.Versions, "; "))
	w.WriteString(r.tables())
	return w.String()
}
