//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// plan says who is measured at what, how often and how long.
type plan struct {
	workloads   []workload
	competitors []competitor
	rounds      int
	span        time.Duration // of one measurement
	idleConns   int           // to hold open
	quick       bool
}

// run measures round by round, all competitors in each round, one workload after the other. Who fails at a workload is
// out of it, and the others go on.
func (p plan) run(ctx context.Context, l *lab) (*results, error) {
	all := &results{Samples: samples{}}
	progress := progress{total: p.samples(), began: time.Now()}
	for _, w := range p.workloads {
		for round := range p.roundsOf(w) {
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
	}
	return all, nil
}

// rotated begins with another one each round, so that nobody always follows the same.
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
	case w.few && p.quick:
		return 1
	case w.few:
		return min(3, p.rounds)
	}
	return p.rounds
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
