package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// output is the file of the connection log, with lines that are not written yet. When the file at the path is another,
// or none, it opens a new one. One goroutine uses it.
type output struct {
	path string // "-" = standard error
	file *os.File
	buf  []byte // whole lines
	torn int    // bytes of buf's first line that are in the file already
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

// add appends a line to those that are not written yet.
func (o *output) add(line []byte) { o.buf = append(o.buf, line...) }

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

// follow opens the path again if another file, or none, is there. A line of which the old file has a part is written to
// the new one completely.
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

// close closes the file, without writing what is left.
func (o *output) close() error {
	if o.path == "-" {
		return nil
	}
	return o.file.Close()
}
