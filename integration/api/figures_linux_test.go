package api

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/integration/bed"
)

// histogram is a histogram of the daemon's metrics, for IPv4.
type histogram struct {
	count   int
	sum     float64 // seconds
	buckets []bucket
}

// bucket counts the observations of at most this many seconds.
type bucket struct {
	most float64
	n    int
}

func readHistogram(d *bed.Daemon, name string) (h histogram) {
	d.Helper()
	for line := range strings.Lines(d.Metrics()) {
		series, text, _ := bed.CutLast(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(series, name)
		if !ours || !strings.Contains(rest, `ip_family="IPv4"`) {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			d.Fatal(err)
		}
		switch {
		case strings.HasPrefix(rest, "_count{"):
			h.count = int(value)
		case strings.HasPrefix(rest, "_sum{"):
			h.sum = value
		case strings.HasPrefix(rest, "_bucket{"):
			h.buckets = append(h.buckets, bucket{upTo(rest), int(value)})
		}
	}
	slices.SortFunc(h.buckets, func(a, b bucket) int { return cmp.Compare(a.most, b.most) })
	return h
}

var bound = regexp.MustCompile(`le="([^"]+)"`)

func upTo(labels string) float64 {
	m := bound.FindStringSubmatch(labels)
	if m == nil {
		return math.NaN()
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// mean is the mean duration, 0 without observations.
func (h histogram) mean() time.Duration {
	return time.Duration(h.sum / float64(max(1, h.count)) * float64(time.Second)).Round(10 * time.Microsecond)
}

// quantile is the bucket bound, in seconds, below which the share q of all observations lies, or infinity.
func (h histogram) quantile(q float64) float64 {
	for _, b := range h.buckets {
		if float64(b.n) >= q*float64(h.count) {
			return b.most
		}
	}
	return math.Inf(1)
}

var resident = regexp.MustCompile(`VmHWM:\s+(\d+) kB\n(?s:.*)VmRSS:\s+(\d+) kB`)

// memory describes the daemon's memory. The race detector multiplies it.
func memory(d *bed.Daemon) string {
	d.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
	if err != nil {
		d.Fatal(err)
	}
	m := resident.FindStringSubmatch(string(text))
	if m == nil {
		d.Fatalf("no memory in %s", text)
	}
	most, _ := strconv.Atoi(m[1])
	now, _ := strconv.Atoi(m[2])
	return fmt.Sprintf("portald has %d MB of memory, at most %d, of which live heap %.0f MB", now>>10, most>>10,
		d.Metric("go_memstats_heap_inuse_bytes")/(1<<20))
}
