package top

import (
	"math"
	"strconv"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
)

// samples are the counts of rows at the last look.
type samples map[string]sample

type sample struct {
	at     time.Time
	counts []uint64
}

// unknown stands for a count that is not known. It is more than any.
const unknown = math.MaxUint64

// counted is a count that may not be known.
func counted(n *uint64) uint64 {
	if n == nil {
		return unknown
	}
	return *n
}

// until returns the rates of counts since the sample, a second. The rates of a new row are unknown, and so is the rate
// of a count that is not known, or went back, as after a restart of the daemon.
func (s sample) until(counts []uint64, at time.Time) []float64 {
	out := make([]float64, len(counts))
	for i, now := range counts {
		took := at.Sub(s.at).Seconds()
		if s.counts == nil || now == unknown || now < s.counts[i] || took <= 0 {
			out[i] = -1
			continue
		}
		out[i] = float64(now-s.counts[i]) / took
	}
	return out
}

// perSecond writes a rate of events.
func perSecond(rate float64) string {
	switch {
	case rate < 0:
		return "-"
	case rate > 0 && rate < 10:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return strconv.FormatFloat(rate, 'f', 0, 64)
}

// bytesPerSecond writes a rate of bytes.
func bytesPerSecond(rate float64) string {
	if rate < 0 {
		return "-"
	}
	return inspect.Size(int64(rate)) + "/s"
}
