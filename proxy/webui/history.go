package webui

import "time"

// The past that is shown: so many intervals of time.
const (
	interval  = 5 * time.Second
	intervals = 60
	past      = intervals * interval
)

// point is what was counted in one interval, over all nodes.
type point struct {
	number    int64 // of the interval, since 1970
	begun     uint32
	failed    uint32
	retries   uint32
	firstByte []uint64
}

// history has the last intervals of one service port.
type history struct {
	points [intervals]point
	last   int64 // the number of the latest one
}

func numberOf(t time.Time) int64 { return t.UnixNano() / int64(interval) }

// at returns the point of a time, emptied if it was of an earlier one.
func (h *history) at(t time.Time) *point {
	n := numberOf(t)
	p := &h.points[n%intervals]
	if p.number != n {
		*p = point{number: n}
	}
	h.last = max(h.last, n)
	return p
}

// isOver tells whether nothing of it is shown any more.
func (h *history) isOver(now time.Time) bool { return numberOf(now)-h.last >= intervals }

// spread counts n in the intervals after a time until another one: a node that has much to tell is asked seldom.
func (h *history) spread(after, until time.Time, n uint64, count func(*point, uint32)) {
	parts := uint64(min(max(numberOf(until)-numberOf(after), 1), intervals))
	for i := range parts {
		share := (n*(i+1))/parts - n*i/parts
		if share > 0 {
			count(h.at(until.Add(-time.Duration(parts-1-i)*interval)), uint32(share))
		}
	}
}

// series has a value for each interval until now, the oldest first.
func (h *history) series(now time.Time, of func(*point) uint32) []uint32 {
	out := make([]uint32, intervals)
	last := numberOf(now)
	for i := range h.points {
		if ago := last - h.points[i].number; ago >= 0 && ago < intervals {
			out[intervals-1-ago] = of(&h.points[i])
		}
	}
	return out
}

// firstByte adds up the histograms of the last intervals.
func (h *history) firstByte(now time.Time) (counts []uint64) {
	last := numberOf(now)
	for i := range h.points {
		if ago := last - h.points[i].number; ago >= 0 && ago < intervals && h.points[i].firstByte != nil {
			counts = add(counts, h.points[i].firstByte)
		}
	}
	return counts
}

func sum(all []uint32) (n uint64) {
	for _, one := range all {
		n += uint64(one)
	}
	return n
}
