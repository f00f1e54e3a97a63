//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

func switching() []scene {
	return []scene{{
		title: "From userspace mode to kernel mode and back, under load",
		about: "Four clients connect, send a request and close, repeatedly. One annotation moves the Service to kernel " +
			"mode, in which connections have no records; another one moves it back.",
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
	rest, err := s.allRecords(ctx)
	if err != nil {
		return err
	}
	recorded += len(rest)
	if unseen := l.total() - recorded; unseen < silent {
		return fmt.Errorf("%d connections have no record, want at least the %d in kernel mode", unseen, silent)
	}
	s.check("%s connections, 0 failed: %s with a record, %s in kernel mode without one", thousands(l.total()),
		thousands(recorded),
		thousands(l.total()-recorded))
	return nil
}

// allRecords waits until every connection has ended, and returns the records that were not read yet. They are written
// in the order of their ends, so the record of one more connection is behind all of them.
func (s *show) allRecords(ctx context.Context) (lines []string, err error) {
	err = s.daemon.until(ctx, "all connections to end", func() bool {
		open, err := s.run(ctx, s.net.Node, s.daemon.program, "conns", "--proto", "tcp", "--carried-by", "userspace", "-o",
			"json")
		return err == nil && strings.TrimSpace(open) == "[]"
	})
	if err != nil {
		return nil, err
	}
	last, err := s.connect(ctx, 1)
	closeAll(last)
	if err != nil {
		return nil, err
	}
	from := " " + last[0].LocalAddr().String() + " "
	var failed error
	err = s.daemon.until(ctx, "the last record", func() bool {
		var more []string
		more, failed = s.records.read(ctx, 0)
		lines = append(lines, more...)
		return failed != nil || len(lines) > 0 && strings.Contains(lines[len(lines)-1], from)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	return lines[:len(lines)-1], nil
}

// settled is the time in which the last connections of a mode end and their records are written.
const settled = 300 * time.Millisecond

// recordTime is the start of a connection, in UTC, with which its record begins.
const recordTime = "2006-01-02 15:04:05.000"

// flips moves the Service to kernel mode and back. It returns the number of records before the move back, and the
// number of connections in kernel mode, which must have no records.
func (s *show) flips(ctx context.Context, l *load) (recorded, silent int, err error) {
	m := newMeter(s.page, l)
	to := func(mode string, during time.Duration) error {
		s.shop.Annotation = "portald.io/mode: " + mode
		if _, err := s.daemon.apply(ctx, s.writeManifests); err != nil {
			return err
		}
		return m.run(ctx, s.shop.Annotation, during)
	}
	if err := m.run(ctx, "userspace mode", phase); err != nil {
		return 0, 0, err
	}
	if err := to("kernel", phase/4); err != nil {
		return 0, 0, err
	}
	before, err := s.records.read(ctx, settled)
	if err != nil {
		return 0, 0, err
	}
	began, silentFrom := l.total(), time.Now().UTC().Format(recordTime)
	if err := m.run(ctx, s.shop.Annotation, phase); err != nil {
		return 0, 0, err
	}
	silent = l.total() - began
	during, err := s.records.read(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range during {
		if r < silentFrom { // it was written late
			continue
		}
		again, err := s.usedAgain(ctx, r)
		if err != nil {
			return 0, 0, err
		}
		if !again {
			return 0, 0, fmt.Errorf("%d records, one of a connection in kernel mode: %s", len(during), r)
		}
	}
	return len(before) + len(during), silent, to("userspace", phase)
}

// usedAgain tells whether the client of a record had used the same port before: if that connection was reset, the
// kernel still leads the port to portald for ten seconds.
func (s *show) usedAgain(ctx context.Context, record string) (bool, error) {
	fields := strings.Fields(record)
	if len(fields) < 5 {
		return false, fmt.Errorf("the record %q has no client", record)
	}
	all, err := s.run(ctx, s.net.Node, s.daemon.program, "tail", "--last", "8000")
	return strings.Count(all, " "+fields[4]+" ") > 1, err
}
