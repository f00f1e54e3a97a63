package adminsocket

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"time"
)

// tcpBatch is how many connections' TCP_INFO the daemon reads at a time: it looks through all that are open each time.
const tcpBatch = 8192

// choose returns the connections among all that match, in the order of the query, and no more than its limit. The next
// one overwrites what was yielded. TCP_INFO is read only of the chosen ones, or if they are sorted by it, of all that
// match.
func (q *ConnectionQuery) choose(ctx context.Context, d *Daemon, now time.Time) iter.Seq[*Connection] {
	chosen := q.matching(q.all(ctx, d), now)
	if q.Sort == ByRTT {
		chosen = withTCP(ctx, d, chosen)
	}
	if q.Sort != "" {
		chosen = q.sorted(chosen)
	} else if q.Limit > 0 {
		chosen = first(chosen, q.Limit)
	}
	if q.TCP && q.Sort != ByRTT {
		chosen = withTCP(ctx, d, chosen)
	}
	return chosen
}

// all lists what is open, in userspace mode first.
func (q *ConnectionQuery) all(ctx context.Context, d *Daemon) iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		for _, part := range []struct {
			by   string
			list func(context.Context) iter.Seq[*Connection]
		}{{"userspace", d.Connections}, {"kernel", d.Kernel}} {
			if part.list == nil || !anyOf(q.CarriedBy, func(by string) bool { return by == part.by }) {
				continue
			}
			for c := range part.list(ctx) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

func (q *ConnectionQuery) matching(all iter.Seq[*Connection], now time.Time) iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		for c := range all {
			if q.Match(c, now) && !yield(c) {
				return
			}
		}
	}
}

func first(all iter.Seq[*Connection], limit int) iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		n := 0
		for c := range all {
			if n++; !yield(c) || n == limit {
				return
			}
		}
	}
}

// withTCP adds TCP_INFO, to a batch at a time.
func withTCP(ctx context.Context, d *Daemon, all iter.Seq[*Connection]) iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		var batch []Connection
		flush := func() bool {
			d.AddTCP(ctx, batch)
			for i := range batch {
				if !yield(&batch[i]) {
					return false
				}
			}
			batch = batch[:0]
			return true
		}
		for c := range all {
			if batch = append(batch, *c); len(batch) == tcpBatch && !flush() {
				return
			}
		}
		flush()
	}
}

// ranked is a connection and its place in an order: the larger rank first, then the smaller id.
type ranked struct {
	rank float64
	id   uint64
	c    *Connection
}

func (r ranked) compare(o ranked) int {
	return cmp.Or(cmp.Compare(o.rank, r.rank), cmp.Compare(r.id, o.id))
}

// sorted keeps, with a limit, twice that many at most, and copies few of those that do not make it.
func (q *ConnectionQuery) sorted(all iter.Seq[*Connection]) iter.Seq[*Connection] {
	var kept []ranked
	full := false // kept has as many as the query's limit, the last of which is at Limit-1
	trim := func() {
		slices.SortFunc(kept, ranked.compare)
		if full = q.Limit > 0 && len(kept) >= q.Limit; full {
			kept = kept[:q.Limit]
		}
	}
	for c := range all {
		its := ranked{rank: q.Sort.Rank(c), id: c.ID}
		if full && its.compare(kept[q.Limit-1]) > 0 {
			continue
		}
		copied := *c
		its.c = &copied
		if kept = append(kept, its); q.Limit > 0 && len(kept) >= 2*q.Limit {
			trim()
		}
	}
	trim()
	return func(yield func(*Connection) bool) {
		for _, k := range kept {
			if !yield(k.c) {
				return
			}
		}
	}
}

// Rank is the sort key of a connection: the larger first, and of equal ones the smaller id.
func (o Order) Rank(c *Connection) float64 {
	switch o {
	case ByAge:
		return since(c.Start)
	case ByIdle:
		return since(c.LastMoved)
	case ByRTT:
		return max(c.ClientTCP.rtt(), c.EndpointTCP.rtt())
	}
	return float64(c.BytesFromClient + c.BytesFromEndpoint)
}

// since is the larger the longer ago a time is; a zero time is not known, and comes last.
func since(t time.Time) float64 {
	if t.IsZero() {
		return math.Inf(-1)
	}
	return -float64(t.UnixMicro())
}

func (t *TCP) rtt() float64 {
	if t == nil {
		return -1
	}
	return t.RTTms
}
