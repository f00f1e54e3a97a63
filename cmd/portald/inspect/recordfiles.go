package inspect

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/portald/portald/proxy/connlog"
)

// readFiles prints the selected lines of connection logs. They are read in the order in which they are named.
func (t *tail) readFiles(ctx context.Context, in io.Reader, p *recordPrinter) error {
	print, kept := t.limited(p.print), latest{most: t.last}
	keep := kept.add
	if t.last == everything {
		keep = print
	}
	for _, name := range t.files {
		err := t.readFile(ctx, name, in, keep, p)
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return err
		}
	}
	for _, l := range kept.all() {
		err := print(l)
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return err
		}
	}
	return p.flush()
}

func (t *tail) readFile(ctx context.Context, name string, in io.Reader, keep func(*connlog.Line) error,
	p *recordPrinter) error {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--input-file: %w", err)
		}
		defer f.Close()
		in = f
	} else {
		in = interruptible(ctx, in)
	}
	foreign, records := 0, 0
	err := eachLine(ctx, in, func(line []byte) error {
		var l connlog.Line
		if json.Unmarshal(line, &l) != nil || l.Time.IsZero() {
			foreign++
			return nil
		}
		records++
		if !t.filter.Match(&l) {
			return nil
		}
		return keep(&l)
	})
	switch {
	case foreign > 0 && records == 0 && err == nil:
		fmt.Fprintf(p.errOut, "%s: has no record: none of its %s is one; --connection-log-format json writes some\n", name,
			counted(foreign, "line"))
	case foreign > 0:
		fmt.Fprintf(p.errOut, "%s: %s left out that are no records; --connection-log-format json writes some\n", name,
			counted(foreign, "line"))
	case records == 0 && err == nil:
		fmt.Fprintf(p.errOut, "%s: has no record: it is empty\n", name)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("--input-file %s: %w", name, err)
	}
	return err
}

// interruptible reads in until the context ends: a read of a terminal or pipe knows no context.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r
}

// maxLine bounds a line of a log, in bytes.
const maxLine = 1 << 20

// eachLine calls do for each line that is not empty of a log, which may be compressed.
func eachLine(ctx context.Context, in io.Reader, do func(line []byte) error) error {
	plain, err := decompressed(in)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(plain)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() && ctx.Err() == nil {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			if err := do(line); err != nil {
				return err
			}
		}
	}
	return errors.Join(ctx.Err(), lines.Err())
}

// decompressed reads what gzip wrote, and anything else as it is.
func decompressed(in io.Reader) (io.Reader, error) {
	r := bufio.NewReaderSize(in, 64<<10)
	if magic, _ := r.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) { // a short file has none, and no error yet
		return r, nil
	}
	return gzip.NewReader(r)
}

// latest keeps the last records of many.
type latest struct {
	most int
	kept []*connlog.Line // up to twice as many as wanted
}

func (k *latest) add(l *connlog.Line) error {
	if k.most == 0 {
		return nil
	}
	if len(k.kept) >= 2*k.most {
		k.kept = append(k.kept[:0], k.all()...)
	}
	k.kept = append(k.kept, l)
	return nil
}

func (k *latest) all() []*connlog.Line { return k.kept[max(0, len(k.kept)-k.most):] }
