package connlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// output is the file of the connection log, with lines that are not written yet. One goroutine uses it.
type output struct {
	file file
	buf  []byte // whole lines
	torn int    // bytes of buf's first line that are in the file already
}

// file is where lines go.
type file interface {
	io.WriteCloser
	// follow is called now and then: it opens the path again if another file, or none, is there. True: writes go to
	// another file than before.
	follow() (moved bool, err error)
}

// openOutput returns the output also with an error: follow opens the file later.
func openOutput(path string, r Rotation) (*output, error) {
	if path == "-" {
		return &output{file: standardError{}}, nil
	}
	f := &followed{path: path}
	_, err := f.follow()
	if !r.Rotates() || !mayBeFile(path) {
		return &output{file: f}, err
	}
	return &output{file: newRotated(path, r)}, errors.Join(err, f.Close())
}

// mayBeFile tells whether a path names a regular file itself, or nothing yet: a device, a pipe and a link are not to be
// renamed.
func mayBeFile(path string) bool {
	info, err := os.Lstat(path)
	return err != nil || info.Mode().IsRegular()
}

// add appends a line to those that are not written yet.
func (o *output) add(as Format, l *Line) { o.buf = as(o.buf, l) }

// waiting returns the number of bytes that are not written yet.
func (o *output) waiting() int { return len(o.buf) - o.torn }

// lines returns the number of lines that are not written completely.
func (o *output) lines() int { return bytes.Count(o.buf, []byte{'\n'}) }

// flush writes all lines in one call. After an error the rest stays, from where the write ended.
func (o *output) flush() error {
	if o.waiting() == 0 {
		return nil
	}
	n, err := o.file.Write(o.buf[o.torn:])
	done := o.torn + n
	whole := bytes.LastIndexByte(o.buf[:done], '\n') + 1
	o.buf = slices.Delete(o.buf, 0, whole)
	o.torn = done - whole
	if len(o.buf) == 0 && cap(o.buf) > 8*flushBytes {
		o.buf = nil // a burst is over, its memory need not stay
	}
	return err
}

// follow follows the file. A line of which the old file has a part is written to the new one completely.
func (o *output) follow() error {
	moved, err := o.file.follow()
	if moved {
		o.torn = 0
	}
	return err
}

// close closes the file, without writing what is left.
func (o *output) close() error { return o.file.Close() }

// standardError is not closed.
type standardError struct{}

func (standardError) Write(lines []byte) (int, error) { return os.Stderr.Write(lines) }
func (standardError) follow() (moved bool, err error) { return false, nil }
func (standardError) Close() error                    { return nil }

// followed is a file that others rename and remove.
type followed struct {
	path string
	open *os.File // nil: it could not be opened yet
}

// errNotOpen is the error of writes until follow has opened the file.
var errNotOpen = errors.New("the file is not open")

func (f *followed) Write(lines []byte) (int, error) {
	if f.open == nil {
		return 0, errNotOpen
	}
	return f.open.Write(lines)
}

func (f *followed) Close() error {
	if f.open == nil {
		return nil
	}
	return f.open.Close()
}

func (f *followed) follow() (moved bool, err error) {
	if f.open == nil {
		f.open, err = openAppend(f.path)
		return err == nil, err
	}
	there, err := os.Stat(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	ours, err := f.open.Stat()
	if err != nil {
		return false, err
	}
	if os.SameFile(there, ours) {
		return false, nil
	}
	next, err := openAppend(f.path)
	if err != nil {
		return false, err
	}
	old := f.open
	f.open = next
	if err := old.Close(); err != nil {
		return true, fmt.Errorf("close the old file: %w", err)
	}
	return true, nil
}
