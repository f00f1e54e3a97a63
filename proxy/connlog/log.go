// Package connlog writes the connection log, and keeps the last records in memory for those who follow them.
//
//	log, err := connlog.NewLog(connlog.Options{Path: path, Format: "json", Log: daemonLog})
//	selection := connlog.NewSelection(events, log) // a record.Observer: passes on what settings and Services want logged
//	stream := connlog.NewStream(connlog.DefaultStream) // a record.Observer too
//	follower := stream.Follow(0) // for portald tail
//
// A Line is a record as JSON, and as the formats text, logfmt and columns write it; a Filter selects lines and records.
// A new field is added to Line, in fields.go for the formats, and to docs/record.schema.json: a test compares them.
//
// The package does not know how traffic is carried, and never delays it: what is not written in time is dropped and
// counted.
package connlog

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	defaultBuffer = 1 << 14                // records: half a second of what one node has been seen to carry
	batchTime     = 250 * time.Millisecond // how long a record waits for others, so that they are written in one go
	flushBytes    = 64 << 10               // so many bytes are written in one call, if there are as many
	tickTime      = time.Second            // how often the file is checked for rotation, and a failed write tried again
)

// Options say where connection records go.
type Options struct {
	Path   string             // a file, appended to and followed when it is renamed or removed; "-" = standard error
	Format string             // of FormatNames
	Rotate Rotation           // of the file by this process; zero: others do it, if they want
	Buffer int                // records that may wait for the disk; 0 = 16,384
	Log    logrus.FieldLogger // the daemon's own log, for errors of this one; not nil
}

// Log is the connection log: it writes a line for each report. Put never waits for the file: reports that do not fit
// the queue are dropped and counted.
type Log struct {
	daemon logrus.FieldLogger
	queue  *Queue[Report]
	errors atomic.Uint64

	// Owned by Run.
	out         *output
	format      Format
	line        Line   // of one report after the other
	writeFails  bool   // the last write failed
	followFails bool   // the last check for rotation failed
	dropping    bool   // records are being dropped
	lastDropped uint64 // Dropped at the last tick
	reported    uint64 // Dropped when it was last logged
}

// NewLog returns a log whose file Run opens later if that fails now: traffic does not wait for a disk.
func NewLog(o Options) (*Log, error) {
	format := FormatNamed(o.Format)
	if format == nil {
		return nil, fmt.Errorf("unknown connection log format %q: it is one of %s", o.Format,
			strings.Join(FormatNames(), ", "))
	}
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	out, err := openOutput(o.Path, o.Rotate)
	l := &Log{
		daemon: o.Log,
		queue:  NewQueue[Report](o.Buffer),
		out:    out,
		format: format,
	}
	l.check(&l.followFails, "open", err)
	return l, nil
}

// Put implements Sink: it queues the report for Run. It never blocks.
func (l *Log) Put(r Report) { l.queue.Put(r) }

// Dropped returns the number of reports that never reached the file.
func (l *Log) Dropped() uint64 { return l.queue.Dropped() }

// WriteErrors returns the number of writes, and of attempts to open the file, that failed.
func (l *Log) WriteErrors() uint64 { return l.errors.Load() }

// Run writes reports until ctx ends, then what is left in the queue, and closes the file. It is called once.
// It returns an error if records could not be written at the end. A write that hangs delays its end.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.queue.Ready():
			l.queue.Gather(ctx, batchTime)
			if !l.writeFails { // otherwise the tick tries, so that a full disk is not tried for every record
				l.write()
			}
		case <-tick.C:
			l.follow()
			l.write()
			l.reportDropped()
		}
	}
	return l.finish()
}

// write writes all queued records. After an error the queue is left to fill, which bounds memory.
func (l *Log) write() {
	if !l.flush() {
		return
	}
	batch := l.queue.Take()
	ok := true
	for i, r := range batch {
		batch[i] = Report{}
		l.add(r)
		if ok && l.out.waiting() >= flushBytes {
			ok = l.flush()
		}
	}
	if ok {
		l.flush()
	}
}

// add adds the report's line to the output.
func (l *Log) add(r Report) {
	l.line.FillReport(r)
	l.out.add(l.format, &l.line)
}

// flush writes the output.
func (l *Log) flush() bool { return l.check(&l.writeFails, "write", l.out.flush()) }

// follow opens the file, or opens it again after a rotation.
func (l *Log) follow() { l.check(&l.followFails, "open", l.out.follow()) }

// check counts an error, and logs when such errors begin and when they end.
func (l *Log) check(failing *bool, what string, err error) bool {
	switch {
	case err != nil && !*failing:
		l.daemon.WithError(err).Warnf("Cannot %s connection log: trying again, traffic goes on", what)
	case err == nil && *failing:
		l.daemon.Infof("Can %s connection log again", what)
	}
	if err != nil {
		l.errors.Add(1)
	}
	*failing = err != nil
	return err == nil
}

// reportDropped logs once when records begin to be dropped, and how many were once that has ended.
func (l *Log) reportDropped() {
	n := l.Dropped()
	switch {
	case n > l.lastDropped && !l.dropping:
		l.dropping = true
		l.daemon.Warn("Connection log falls behind: records are being dropped")
	case n == l.lastDropped && l.dropping:
		l.dropping = false
		l.daemon.Warnf("Connection log dropped %d records", n-l.reported)
		l.reported = n
	}
	l.lastDropped = n
}

// finish writes what is left and closes the file.
func (l *Log) finish() error {
	l.queue.Close()
	l.follow()
	l.write()
	err := l.out.close()
	lost := l.out.lines() + len(l.queue.Take())
	l.queue.Drop(lost)
	if n := l.Dropped(); n > l.reported {
		l.daemon.Warnf("Connection log dropped %d records", n-l.reported)
	}
	if lost > 0 {
		return fmt.Errorf("write connection log: %d records lost at the end", lost)
	}
	if err != nil {
		return fmt.Errorf("close connection log: %w", err)
	}
	return nil
}
