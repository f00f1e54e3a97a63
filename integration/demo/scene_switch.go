//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

func switching() []scene {
	return []scene{{
		title: "From userspace to the kernel and back, under load",
		about: "Four clients connect, ask and close, again and again. One annotation hands the Service to the kernel, " +
			"whose connections leave no record; it is taken away, and they do again.",
		play: flip,
	}}
}

func flip(ctx context.Context, s *show) error {
	l := s.startLoad(4)
	recorded, silent, err := s.flips(ctx, l)
	l.end()
	if err != nil {
		return err
	}
	if err := l.failure(); err != nil {
		return err
	}
	rest, err := s.records.read(ctx, settled)
	if err != nil {
		return err
	}
	recorded += len(rest)
	if unseen := l.total() - recorded; unseen < silent {
		return fmt.Errorf("%d connections of the %d while the kernel carried have no record", unseen, silent)
	}
	s.check("%s connections, 0 failed: %s with a record, %s by the kernel without one", thousands(l.total()),
		thousands(recorded),
		thousands(l.total()-recorded))
	return nil
}

// settled is how long the last connections of a mode take to end and be recorded.
const settled = 300 * time.Millisecond

// flips takes the Service there and back. It returns how many records there were before it came back, and how many
// connections there were meanwhile that must have none.
func (s *show) flips(ctx context.Context, l *load) (recorded, silent int, err error) {
	m := newMeter(s.page, l)
	to := func(mode, state string, during time.Duration) error {
		s.shop.Mode = mode
		if _, err := s.portald.apply(ctx, s.writeManifests); err != nil {
			return err
		}
		return m.run(ctx, state, during)
	}
	if err := m.run(ctx, "in userspace", phase); err != nil {
		return 0, 0, err
	}
	if err := to("kernel", "portald.io/mode: kernel", phase/4); err != nil {
		return 0, 0, err
	}
	before, err := s.records.read(ctx, settled)
	if err != nil {
		return 0, 0, err
	}
	began := l.total()
	if err := m.run(ctx, "portald.io/mode: kernel", phase); err != nil {
		return 0, 0, err
	}
	silent = l.total() - began
	during, err := s.records.read(ctx, 0)
	if err == nil && len(during) > 0 {
		err = fmt.Errorf("%d records of connections that the kernel carried, the first: %s", len(during), during[0])
	}
	if err != nil {
		return 0, 0, err
	}
	return len(before), silent, to("userspace", "portald.io/mode: userspace", phase)
}
