package logfiles

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/connlog"
)

// turn is how long a read works before it pauses as long: connections of the daemon that are ready meanwhile wait no
// longer than that for its CPU.
const turn = 500 * time.Microsecond

// pace leaves half of a CPU at least to others.
type pace struct {
	began time.Time // zero: at the next line
	lines int
	busy  func() error // called each busyTime; nil: nothing is
	said  time.Time    // when it was called
}

const busyTime = time.Second

// keep is called for each line, and pauses now and then. The error is why ctx ended.
func (p *pace) keep(ctx context.Context) error {
	if p.lines++; p.lines%16 != 0 { // a look at the clock costs as much as a line that is not wanted
		return nil
	}
	if ctx.Err() != nil { // a coarse clock may say that no time has passed
		return context.Cause(ctx)
	}
	now := time.Now()
	if p.began.IsZero() {
		p.began, p.said = now, now
	}
	worked := now.Sub(p.began)
	if worked < turn {
		return nil
	}
	err := backoff.Sleep(ctx, min(worked, maxPause))
	p.began = time.Now()
	if err == nil && p.busy != nil && p.began.Sub(p.said) >= busyTime {
		p.said = p.began
		err = p.busy()
	}
	return err
}

// maxPause bounds a pause behind work that took long because the disk, or the client, did.
const maxPause = 10 * time.Millisecond

// maxChase is how long a read goes on among lines that were written since it began.
const maxChase = 10 * time.Second

var errBehind = errors.New("records are written faster than they can be read: those of the last seconds are left out")

// chase ends a read that would never catch up with who writes.
type chase struct {
	began []byte // when the read did, as lines have it
	since time.Time
	lines int
}

func newChase() chase {
	began, _ := connlog.Time{Time: time.Now()}.AppendText(nil) // it has no errors
	return chase{began: began}
}

// keep is called for each line.
func (c *chase) keep(line []byte) error {
	const mark = `{"time":"`
	if len(line) < len(mark)+len(c.began) || bytes.Compare(line[len(mark):len(mark)+len(c.began)], c.began) <= 0 {
		return nil
	}
	if c.lines++; c.lines == 1 {
		c.since = time.Now()
	}
	if c.lines%64 == 0 && time.Since(c.since) > maxChase {
		return errBehind
	}
	return nil
}
