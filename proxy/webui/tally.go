package webui

import (
	"slices"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// tally is what one node last told of a service port. There may be a million.
type tally struct {
	mode, modeFrom    string
	endpoints, usable int
	open              *int
	counts            *counts // nil: it is not known
	firstByte         []uint64
	bounds            []float64
	problem           string
	pass              uint64 // of the node, in which it was told
}

type counts struct{ ended, failed, retries uint64 }

func tallyOf(s *adminsocket.Service) *tally {
	t := &tally{mode: s.Mode, modeFrom: s.ModeFrom, endpoints: s.Endpoints, usable: s.Usable, open: s.Open,
		problem: s.Problem}
	if s.Failed != nil {
		t.counts = &counts{or0(s.Ended), *s.Failed, or0(s.FailedDials) + or0(s.Replays)}
	}
	if s.FirstByte != nil {
		t.firstByte, t.bounds = s.FirstByte.Counts, s.FirstByte.BoundsMS
	}
	return t
}

func or0(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

// begun is how many connections have begun.
func (t *tally) begun() uint64 {
	n := t.counts.ended
	if t.open != nil {
		n += uint64(max(0, *t.open))
	}
	return n
}

// row is a service port, of all nodes.
type row struct {
	name, protocol string
	nodes          []*tally // by the place of the node; nil: it does not have it
	past           *history // nil: nothing was carried of late
	crowded        bool     // something was, and there was no room for it
	bounds         []float64
}

// told takes what a node tells, and counts what is new in it since it told before; zero: nothing, this is the first.
// Without room there is no past of a row that has none yet.
func (r *row) told(place int, now *tally, since, at time.Time, room bool) {
	before := r.nodes[place]
	r.nodes[place] = now
	same := r.share(now)
	if before == nil {
		before = &tally{counts: &counts{}} // the Service is new there
	}
	if since.IsZero() || now.counts == nil || before.counts == nil {
		return
	}
	news := now.since(before)
	if news == (counts{}) && r.past == nil {
		return
	}
	if r.crowded = r.past == nil && !room; r.crowded {
		return
	}
	if r.past == nil {
		r.past = &history{}
	}
	r.past.spread(since, at, news.ended, func(p *point, n uint32) { p.begun += n })
	r.past.spread(since, at, news.failed, func(p *point, n uint32) { p.failed += n })
	r.past.spread(since, at, news.retries, func(p *point, n uint32) { p.retries += n })
	if more := grown(before.firstByte, now.firstByte); same && slices.ContainsFunc(more, isAny) {
		p := r.past.at(at)
		p.firstByte = add(p.firstByte, more)
	}
}

func isAny(n uint64) bool { return n > 0 }

// share has the bounds of all nodes kept once, and tells whether those of one are the same: another version may have
// others, whose counts cannot be added.
func (r *row) share(now *tally) bool {
	if r.bounds == nil {
		r.bounds = now.bounds
	}
	same := slices.Equal(r.bounds, now.bounds)
	if same {
		now.bounds = r.bounds
	}
	return same
}

// since is what is new: connections that have begun, in the place of those that have ended, failures and retries.
func (t *tally) since(before *tally) (news counts) {
	if t.begun() >= before.begun() || t.counts.ended < before.counts.ended { // else what was open was handed over
		news.ended = grownBy(before.begun(), t.begun())
	}
	news.failed = grownBy(before.counts.failed, t.counts.failed)
	news.retries = grownBy(before.counts.retries, t.counts.retries)
	return news
}

// grown is how much a histogram has grown.
func grown(before, now []uint64) (out []uint64) {
	for i, n := range now {
		if i < len(before) {
			n = grownBy(before[i], n)
		}
		out = append(out, n)
	}
	return out
}
