// Package logfiles reads a connection log back: the file that a daemon writes to, and the ones that it, or logrotate,
// has renamed and compressed.
//
//	log := logfiles.Log{Path: "/var/log/portald/connections.json", Format: "json"}
//	reach, err := log.Read(ctx, filter, func(l *connlog.Line) error { … }, nil)
//
// A read takes little memory, at most half of a CPU, and ends with its context. It skips what it cannot read.
package logfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/connlog"
)

// Log is a connection log as a daemon is told to write it.
type Log struct {
	Path   string // empty: none; "-": standard error
	Format string // of connlog.FormatNames
	Keeps  int    // renamed files; 0: all
}

// Reach is how far back the files of a log go, and what of them was not read.
type Reach struct {
	Since   time.Time `json:"since"`         // when the earliest connection of theirs ended; zero: there is none
	Files   int       `json:"files"`         // with records
	Why     string    `json:"why,omitempty"` // not further, and what to do; empty: as far as was asked
	Damaged int       `json:"damaged_lines,omitempty"`
	Skipped []string  `json:"skipped,omitempty"` // files, or ends of files, that could not be read, each with the reason
}

// maxSkipped bounds Reach.Skipped.
const maxSkipped = 8

func (r *Reach) skip(path string, err error) {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if len(r.Skipped) < maxSkipped {
		r.Skipped = append(r.Skipped, printable.Text(fmt.Sprintf("%s: %v", path, err)))
	}
}

// Read calls do for the records of connections that have ended and match, in the order in which they were written. The
// next overwrites what do was given. It calls busy, unless that is nil, about each second. An error is of these, or why
// ctx ended.
func (l Log) Read(
	ctx context.Context, f *connlog.Filter, do func(*connlog.Line) error, busy func() error,
) (Reach, error) {
	if why := l.unreadable(); why != "" {
		return Reach{Why: why}, nil
	}
	r := newReading(ctx, f, do)
	r.pace.busy = busy
	for {
		all, err := find(l.Path)
		if err != nil {
			r.reach.Why = missing(l.Path, err)
			return r.reach, nil
		}
		next := r.next(all)
		if next == nil {
			break
		}
		err = r.file(next)
		if errors.Is(err, errBehind) {
			r.reach.skip(next.path, err)
			break
		}
		if err != nil {
			return r.reach, err
		}
	}
	r.reach.Why = l.whyNotFurther(&r.reach, f)
	return r.reach, nil
}

// unreadable says why a log cannot be read back at all, and what to do.
func (l Log) unreadable() string {
	switch {
	case l.Path == "":
		return "without a connection log they are gone; set connectionLog.path and format: json to keep some"
	case l.Path == "-":
		return "the connection log goes to standard error, into the log of the container or unit: give that to " +
			"portald tail --input-file -, or set connectionLog.path to a file"
	case l.Format != "json":
		return fmt.Sprintf("the connection log %s has format %s, which cannot be read back: set connectionLog.format to json",
			printable.Text(l.Path), l.Format)
	}
	return ""
}

func missing(path string, err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	return fmt.Sprintf("the connection log %s cannot be read: %v", printable.Text(path), err)
}

// whyNotFurther is empty if the files have records from before all that were asked for.
func (l Log) whyNotFurther(r *Reach, f *connlog.Filter) string {
	from, _ := f.Between()
	switch {
	case r.Files == 0:
		return "the connection log " + printable.Text(l.Path) + " has no record yet"
	case !from.IsZero() && !r.Since.After(from):
		return ""
	case l.Keeps > 0 && r.Files > l.Keeps:
		return fmt.Sprintf("connectionLog.maxFiles keeps %d renamed files", l.Keeps)
	}
	return "the connection log begins then"
}

// isTime tells whether the part of a file's name behind the log's is a number or a time, as renamed files have one.
func isTime(part string) bool {
	return part != "" && strings.Trim(part, "0123456789-.T") == "" && part[0] >= '0' && part[0] <= '9'
}
