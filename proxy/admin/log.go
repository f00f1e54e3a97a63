package admin

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/splice"
)

const (
	defaultBuffer = 1 << 14               // records: more than a second of what one node has been seen to carry
	batchTime     = 50 * time.Millisecond // how long a record waits for others, so that one write takes them all
	flushBytes    = 64 << 10              // so many bytes are written in one call, if there are as many
	tickTime      = time.Second           // how often the file is checked for rotation, and a failed write tried again
)

// LogOptions say where connection records go.
type LogOptions struct {
	Path   string             // a file, appended to and followed when it is renamed or removed; "-" = standard error
	Format string             // "json" or "text"
	Buffer int                // records that may wait for the disk; 0 = 16,384
	Log    logrus.FieldLogger // the daemon's own log, for errors of this one; not nil
}

// ConnectionLog writes one line per connection and UDP session. Observe never waits for the file: records that do not
// fit the queue are dropped and counted.
type ConnectionLog struct {
	daemon logrus.FieldLogger
	queue  *queue
	errors atomic.Uint64

	// Owned by Run.
	out         *output
	entry       *logrus.Entry // carries one record after the other to the formatter
	writeFails  bool          // the last write failed
	followFails bool          // the last check for rotation failed
	dropping    bool          // records are being dropped
	lastDropped uint64        // Dropped at the last tick
	reported    uint64        // Dropped when it was last logged
}

// NewConnectionLog opens the file.
func NewConnectionLog(o LogOptions) (*ConnectionLog, error) {
	formatter, err := formatterFor(o.Format)
	if err != nil {
		return nil, err
	}
	out, err := openOutput(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open connection log: %w", err)
	}
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	return &ConnectionLog{
		daemon: o.Log,
		queue:  newQueue(o.Buffer),
		out:    out,
		entry:  logrus.NewEntry(&logrus.Logger{Formatter: formatter}),
	}, nil
}

func formatterFor(format string) (logrus.Formatter, error) {
	switch format {
	case "json":
		return newJSONFormatter(), nil
	case "text":
		return &textFormatter{}, nil
	}
	return nil, fmt.Errorf("unknown connection log format %q: it is json or text", format)
}

// Observe implements splice.Observer: it queues the record for Run. It never blocks.
func (l *ConnectionLog) Observe(r *splice.Record) { l.queue.put(r) }

// Dropped returns the number of records that never reached the file.
func (l *ConnectionLog) Dropped() uint64 { return l.queue.dropped.Load() }

// WriteErrors returns the number of writes, and of attempts to reopen a rotated file, that failed.
func (l *ConnectionLog) WriteErrors() uint64 { return l.errors.Load() }

// Run writes observed records until ctx ends, then what is left in the queue, and closes the file. It is called once.
// It returns an error if records could not be written at the end. A write that hangs delays its end.
func (l *ConnectionLog) Run(ctx context.Context) error {
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.queue.wake:
			l.batch(ctx)
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

// batch waits a moment for more records.
func (l *ConnectionLog) batch(ctx context.Context) {
	timer := time.NewTimer(batchTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.queue.half:
	case <-ctx.Done():
	}
}

// write writes all queued records. After an error the queue is left to fill, which bounds memory.
func (l *ConnectionLog) write() {
	if !l.flush() {
		return
	}
	batch := l.queue.take()
	ok := true
	for i, r := range batch {
		batch[i] = nil
		l.format(r)
		if ok && l.out.waiting() >= flushBytes {
			ok = l.flush()
		}
	}
	if ok {
		l.flush()
	}
}

// format adds the record's line to the output. Logging the entry would copy it and its fields for each record.
func (l *ConnectionLog) format(r *splice.Record) {
	l.entry.Data[recordField] = r
	line, err := l.entry.Bytes()
	if err != nil {
		l.queue.dropped.Add(1)
		l.daemon.WithError(err).Warn("cannot format connection record")
		return
	}
	l.out.add(line)
}

// flush writes the output.
func (l *ConnectionLog) flush() bool { return l.check(&l.writeFails, "write", l.out.flush()) }

// follow reopens the file after a rotation.
func (l *ConnectionLog) follow() { l.check(&l.followFails, "reopen", l.out.follow()) }

// check counts an error, and logs when such errors begin and when they end.
func (l *ConnectionLog) check(failing *bool, what string, err error) bool {
	switch {
	case err != nil && !*failing:
		l.daemon.WithError(err).Warnf("cannot %s connection log: trying again, traffic goes on", what)
	case err == nil && *failing:
		l.daemon.Infof("can %s connection log again", what)
	}
	if err != nil {
		l.errors.Add(1)
	}
	*failing = err != nil
	return err == nil
}

// reportDropped logs once when records begin to be dropped, and how many were once that has ended.
func (l *ConnectionLog) reportDropped() {
	n := l.Dropped()
	switch {
	case n > l.lastDropped && !l.dropping:
		l.dropping = true
		l.daemon.Warn("connection log falls behind: records are being dropped")
	case n == l.lastDropped && l.dropping:
		l.dropping = false
		l.daemon.Warnf("connection log dropped %d records", n-l.reported)
		l.reported = n
	}
	l.lastDropped = n
}

// finish writes what is left and closes the file.
func (l *ConnectionLog) finish() error {
	l.queue.close()
	l.follow()
	l.write()
	err := l.out.close()
	lost := l.out.lines() + len(l.queue.take())
	l.queue.dropped.Add(uint64(lost))
	if n := l.Dropped(); n > l.reported {
		l.daemon.Warnf("connection log dropped %d records", n-l.reported)
	}
	if lost > 0 {
		return fmt.Errorf("write connection log: %d records lost at the end", lost)
	}
	if err != nil {
		return fmt.Errorf("close connection log: %w", err)
	}
	return nil
}
