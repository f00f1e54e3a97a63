package logfiles

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	maxLine = 256 << 10 // of a record, in bytes: many times what the longest has
	// maxRatio bounds what a compressed file may contain, in its own sizes, since deflate makes up to 1,032 of 1: a log
	// has some 10 to 30.
	maxRatio = 200
)

var (
	errTooLong    = errors.New("a line is too long for a record")
	errTooMuch    = fmt.Errorf("it has more than %d times its size: it is no log", maxRatio)
	errNoFile     = errors.New("it is no regular file")
	errNoGzipEnds = errors.New("compressed data is damaged from there on")
)

// lines are the lines of one file.
type lines struct {
	file *os.File
	info os.FileInfo
	in   *bufio.Reader
	torn []byte // the beginning of a line whose end was not there yet

	begun     bool // its first line was read
	hasRecord bool
}

// open opens a file, compressed or not.
func open(f *file) (*lines, error) {
	in, err := openFile(f)
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	l := &lines{file: in, info: info, in: bufio.NewReaderSize(in, 64<<10)}
	if err == nil {
		err = l.decompress(info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return l, nil
}

// decompress reads what gzip wrote, and anything else as it is.
func (l *lines) decompress(size int64) error {
	if magic, _ := l.in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) { // a short file has none
		return nil
	}
	plain, err := gzip.NewReader(l.in)
	if err != nil {
		return err
	}
	l.in = bufio.NewReaderSize(&limited{plain, maxRatio*size + 1<<20}, 64<<10)
	return nil
}

// limited is a reader with a bound.
type limited struct {
	in   io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooMuch
	}
	n, err := l.in.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errNoGzipEnds, err)
	}
	return n, err
}

// next returns the next line, until the next call. Behind errTooLong comes the line after it; with io.EOF, what has no
// end.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if err == nil && l.torn == nil {
		return line, nil
	}
	whole := append(l.torn, line...)
	for l.torn = nil; errors.Is(err, bufio.ErrBufferFull); {
		line, err = l.in.ReadSlice('\n')
		if len(whole) <= maxLine {
			whole = append(whole, line...)
		}
	}
	switch {
	case err == nil && len(whole) > maxLine:
		return nil, errTooLong
	case errors.Is(err, io.EOF) && len(whole) > 0:
		l.torn = whole
	}
	return whole, err
}

// renamed tells whether a file that is written to has another name now.
func (l *lines) renamed(f *file) bool {
	if !f.until.IsZero() {
		return false
	}
	if there, err := os.Stat(f.path); err == nil && os.SameFile(there, l.info) {
		return false
	}
	f.until = time.Now() // once: no more is written to it
	return true
}

// Close closes the file.
func (l *lines) Close() error { return l.file.Close() }
