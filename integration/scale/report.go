//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/platform"
)

// report is a finished run.
type report struct {
	Date      string
	Kernel    string
	Cores     int
	Endpoints int     // of each Service
	Load      float64 // of the machine at the start
	Took      string
	Lines     []line
	began     time.Time
}

// line is one proxy in one mode at one size.
type line struct {
	Proxy, Mode string
	Services    int
	Reached     float64   // seconds after its start
	NotWithin   float64   `json:",omitempty"` // seconds; else it was reached
	Refused     int       `json:",omitempty"` // service ports whose clients it refuses, because it has no more proxy ports
	StartCPU    float64   // seconds, until it is calm
	StartBytes  uint64    // from the API server until then, with the headers of packets
	Quiet, Busy latencies // of changes, without and beside others
	Rate        float64   // of the others, a second
	BusyCPU     float64   // cores
	BusyBytes   float64   // from the API server for a change
	IdleCPU     float64   // cores, while nothing changes
	Memory      int       // kB at the end of that
	MostMemory  int       // kB

	start       totals
	quiet, busy []time.Duration
}

// latencies are in milliseconds.
type latencies struct {
	Changes       int
	P50, P99, Max float64
}

func summarize(all []time.Duration) latencies {
	sorted := slices.Sorted(slices.Values(all))
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return latencies{len(all), ms(quantile(sorted, 0.5)), ms(quantile(sorted, 0.99)), ms(quantile(sorted, 1))}
}

// quantile is the least value that a share q of all is at most.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func newReport(s *settings) *report {
	r := &report{began: time.Now(), Cores: runtime.NumCPU(), Endpoints: s.endpoints}
	r.Date = r.began.UTC().Format(time.DateOnly)
	r.Kernel = platform.Kernel().String()
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &r.Load) // 0 if it has no number
	}
	return r
}

const head = `| Services | proxy | mode | first reached | change seen, p50 / p99 | during other changes, p50 / p99 | CPU to start | CPU during other changes | CPU when idle | memory when idle | peak memory | bytes from API server: start | per change |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

func (r *report) table() string {
	var out strings.Builder
	out.WriteString(head)
	for _, one := range r.Lines {
		fmt.Fprintf(&out, "| %s | %s | %s ", thousands(one.Services), one.Proxy, one.Mode)
		if one.NotWithin > 0 {
			fmt.Fprintf(&out, "| > %.0f s | – | – | – | – | – | – | %d MB | – | – |\n", one.NotWithin, one.MostMemory>>10)
			continue
		}
		fmt.Fprintf(&out, "| %.1f s | %s | %s | %.1f s | %.0f %% | %.2f %% | %d MB | %d MB | %.1f MB | %.1f kB |\n",
			one.Reached, one.Quiet, one.Busy, one.StartCPU, 100*one.BusyCPU, 100*one.IdleCPU, one.Memory>>10,
			one.MostMemory>>10, float64(one.StartBytes)/1e6, one.BusyBytes/1e3)
	}
	for _, one := range r.Lines {
		if one.Refused > 0 {
			fmt.Fprintf(&out, "\n%s %s with %s Services refuses the clients of %s of them: it has no more proxy ports.\n",
				one.Proxy, one.Mode, thousands(one.Services), thousands(one.Refused))
		}
	}
	return out.String()
}

func (l latencies) String() string { return short(l.P50) + " / " + short(l.P99) + " ms" }

func short(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.1f", ms)
	}
	return thousands(int(math.Round(ms)))
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func (l line) short() string {
	if l.NotWithin > 0 {
		return fmt.Sprintf("%s-%s, %d: not reached within %.0f s", l.Proxy, l.Mode, l.Services, l.NotWithin)
	}
	return fmt.Sprintf("%s-%s, %d: reached after %.1f s; changes %s, with %.0f others/s %s; CPU %.1f s, %.0f %%; "+
		"idle %.2f %%, %d MB of %d",
		l.Proxy, l.Mode, l.Services, l.Reached, l.Quiet, l.Rate, l.Busy, l.StartCPU, 100*l.BusyCPU, 100*l.IdleCPU,
		l.Memory>>10, l.MostMemory>>10)
}

func (r *report) text() string {
	return fmt.Sprintf(`# At scale, compared with kube-proxy

For those who plan a cluster with thousands of Services.

Measured with `+"`make bench-scale`"+` on %s, in %s, on a machine with %d cores (Linux %s, load average at the start
%.1f), which API server, clients and proxy share. Each Service has %d endpoints. All Services except the measured one are written
directly to etcd, in the form in which the API server stores them. All proxies have their default settings, and are measured one
after the other.

%s
- **First reached**: time from the start of the proxy until a client gets an answer at the ClusterIP.
- **Change seen**: the endpoint of a Service changes from one pod to another. The time is from the API server's answer that the
  change is stored until a client that dials every millisecond gets an answer from the other pod. **During other changes**: the same
  while 100 Services per second change all their endpoints.
- **CPU**: CPU time of the proxy and the commands that it runs, until it is idle after its start; and CPU use during other changes
  (100 %% is one core).
- **When idle**: CPU use while no object changes, after those changes, and resident memory at the end of that.
- **Bytes from the API server**: all bytes, with the headers of TLS, TCP and IP.
- In userspace mode a change of endpoints writes no rule, and does not wait for minSyncPeriod.
- These figures are from one run: compare orders of magnitude, not percentages.
`, r.Date, r.Took, r.Cores, r.Kernel, r.Load, r.Endpoints, r.table())
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	return errors.Join(err, os.WriteFile(path+".json", append(text, '\n'), 0o644),
		os.WriteFile(path+".md", []byte(r.text()), 0o644))
}
