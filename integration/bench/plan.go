//go:build linux

package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// run measures all competitors in each round, one workload after the other. A competitor that fails at a workload is
// excluded from it, and the others continue.
func (p plan) run(ctx context.Context, l *lab) (*results, error) {
	all := &results{Samples: samples{}}
	progress := progress{total: p.samples(), began: time.Now()}
	for w, round := range p.turns() {
		for _, c := range rotated(p.among(w), round) {
			if all.out(w, c) {
				progress.done++
				continue
			}
			progress.next(fmt.Sprintf("%s, round %d of %d, %s", w.name, round+1, p.roundsOf(w), c.label))
			f, err := p.measure(ctx, l, w, c)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			progress.say(w, f, err)
			all.add(w, c, f, err)
		}
	}
	return all, nil
}

// turns lists all rounds: workload by workload, with the workloads of a group interleaved.
func (p plan) turns() iter.Seq2[workload, int] {
	return func(yield func(workload, int) bool) {
		for group := range chunks(p.workloads) {
			for round := range p.rounds {
				for _, w := range group {
					if round < p.roundsOf(w) && !yield(w, round) {
						return
					}
				}
			}
		}
	}
}

// chunks splits the workloads at the borders of groups.
func chunks(all []workload) iter.Seq[[]workload] {
	return func(yield func([]workload) bool) {
		for begin, end := 0, 0; begin < len(all); begin = end {
			for end = begin + 1; end < len(all) && all[end].group != "" && all[end].group == all[begin].group; {
				end++
			}
			if !yield(all[begin:end]) {
				return
			}
		}
	}
}

// rotated starts each round with another competitor, so that the order differs between rounds.
func rotated(all []competitor, round int) []competitor {
	at := round % max(1, len(all))
	return slices.Concat(all[at:], all[:at])
}

func (p plan) measure(ctx context.Context, l *lab, w workload, c competitor) (figures, error) {
	b, err := l.bed(ctx, c)
	if err != nil {
		return nil, err
	}
	return w.run(ctx, b, p)
}

func (p plan) roundsOf(w workload) int {
	switch {
	case w.most == 0:
		return p.rounds
	case p.quick:
		return 1
	}
	return min(w.most, p.rounds)
}

func (p plan) among(w workload) []competitor {
	var all []competitor
	for _, c := range p.competitors {
		if w.among(c) {
			all = append(all, c)
		}
	}
	return all
}

func (p plan) samples() (n int) {
	for _, w := range p.workloads {
		n += p.roundsOf(w) * len(p.among(w))
	}
	return n
}
