package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// output is the file that the connection log goes to, with the lines that wait to be written. It follows the file's
// path: once another file, or none, is found there, the next lines go to a new one. One goroutine uses it.
type output struct {
	path string // "-" = standard error
	file *os.File
	buf  []byte // whole lines
	torn int    // bytes of buf's first line that file has already
}

func openOutput(path string) (*output, error) {
	if path == "-" {
		return &output{path: path, file: os.Stderr}, nil
	}
	f, err := openAppend(path)
	if err != nil {
		return nil, err
	}
	return &output{path: path, file: f}, nil
}

// openAppend opens path for appending, so that one who truncates the file in place is followed as well. The lines
// tell who talked to whom, which is not everybody's business.
func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
}

// add puts a line behind those that wait.
func (o *output) add(line []byte) { o.buf = append(o.buf, line...) }

// waiting is the number of bytes that wait to be written.
func (o *output) waiting() int { return len(o.buf) - o.torn }

// lines is the number of lines that are not wholly written.
func (o *output) lines() int { return bytes.Count(o.buf, []byte{'\n'}) }

// flush writes what waits, in one call. After an error the rest waits on, from where the file stopped taking it.
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

// follow opens the path anew when the file is no longer what stands there. A line that the old file has a part of is
// written whole to the new one.
func (o *output) follow() error {
	if o.path == "-" {
		return nil
	}
	there, err := os.Stat(o.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ours, err := o.file.Stat()
	if err != nil {
		return err
	}
	if os.SameFile(there, ours) {
		return nil
	}
	f, err := openAppend(o.path)
	if err != nil {
		return err
	}
	old := o.file
	o.file, o.torn = f, 0
	if err := old.Close(); err != nil {
		return fmt.Errorf("close the old file: %w", err)
	}
	return nil
}

// close closes the file, without writing what waits.
func (o *output) close() error {
	if o.path == "-" {
		return nil
	}
	return o.file.Close()
}
