package logfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/portald/portald/proxy/connlog"
)

// reading is one read of all files of a log.
type reading struct {
	ctx    context.Context
	filter *connlog.Filter
	do     func(*connlog.Line) error
	pace   pace
	from   time.Time // what ended earlier is not wanted
	chase  chase
	reach  Reach
	read   map[string]bool // files, by their first lines: names change, and so do files that are compressed
	first  map[version]string
	tries  map[string]int // to open a file of that first line
	line   connlog.Line
}

func newReading(ctx context.Context, f *connlog.Filter, do func(*connlog.Line) error) *reading {
	r := &reading{ctx: ctx, filter: f, do: do, chase: newChase(),
		read: map[string]bool{}, first: map[version]string{}, tries: map[string]int{}}
	r.from, _ = f.Between()
	return r
}

// version is a file as it was at some time, whose first line was looked at.
type version struct {
	path string
	time int64
	size int64
}

// next returns the first file that was not read yet, nil if all were. It is asked behind each file, since others are
// renamed and begun meanwhile.
func (r *reading) next(all []file) *file {
	for i := range all {
		f := &all[i]
		v := version{f.path, f.info.ModTime().UnixNano(), f.info.Size()}
		first, known := r.first[v]
		if !known {
			var err error
			if first, err = firstLine(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				r.reach.skip(f.path, err)
			}
			r.first[v] = first
		}
		if first == "" || r.read[first] {
			continue
		}
		if r.tries[first]++; r.tries[first] <= maxTries {
			return f
		}
		r.read[first] = true
		r.reach.skip(f.path, errElsewhere)
	}
	return nil
}

// maxTries bounds how often a file is looked for that always has another name by the time it is opened.
const maxTries = 10

var errElsewhere = errors.New("it is renamed again and again")

// firstLine returns what tells a file from others, empty if it has no line yet.
func firstLine(f *file) (string, error) {
	in, err := open(f)
	if err != nil {
		return "", err
	}
	defer in.Close()
	line, err := in.next()
	switch {
	case err == nil:
		return key(line), nil
	case errors.Is(err, errTooLong):
		return f.path, nil
	case errors.Is(err, io.EOF):
		return "", nil
	}
	return "", err
}

// key tells files apart.
func key(firstLine []byte) string { return string(firstLine[:min(len(firstLine), 256)]) }

// file reads one file. What is wrong with it is noted in reach; an error is why to read no more.
func (r *reading) file(f *file) error {
	in, err := open(f)
	if err != nil || !os.SameFile(in.info, f.info) { // it has another name just now
		return nil
	}
	defer in.Close()
	for {
		goOn, err := r.toEnd(f, in)
		if !goOn || err != nil {
			return err
		}
	}
}

// toEnd reads lines until the end of a file. True: it was renamed meanwhile, and may have got more before that.
func (r *reading) toEnd(f *file, in *lines) (again bool, err error) {
	for {
		line, err := in.next()
		switch {
		case err == nil:
		case errors.Is(err, errTooLong):
			r.reach.Damaged++
			r.begin(in, f.path)
			continue
		case errors.Is(err, io.EOF):
			r.torn(f, line)
			return in.renamed(f), nil
		default:
			r.reach.skip(f.path, err)
			return false, nil
		}
		if wanted, err := r.oneOf(f, in, line); !wanted || err != nil {
			return false, err
		}
	}
}

// oneOf reads a line. False: the file has nothing that is wanted.
func (r *reading) oneOf(f *file, in *lines, line []byte) (wanted bool, err error) {
	r.begin(in, key(line))
	if !in.hasRecord {
		if !r.firstRecord(line) {
			return true, nil
		}
		in.hasRecord = true
		if !f.until.IsZero() && f.until.Before(r.from) {
			return false, nil
		}
	}
	return true, errors.Join(r.pace.keep(r.ctx), r.chase.keep(line), r.record(line))
}

// begin notes that a file is read, with its first line.
func (r *reading) begin(in *lines, key string) {
	if !in.begun {
		in.begun, r.read[key] = true, true
	}
}

// torn counts the end of a file that has no whole line there. A line that is being written is none.
func (r *reading) torn(f *file, line []byte) {
	if len(line) > 0 && !f.until.IsZero() {
		r.reach.Damaged++
	}
}

// firstRecord notes the first record of a file. False: it is none.
func (r *reading) firstRecord(line []byte) bool {
	if !r.decode(line) {
		return false
	}
	r.reach.Files++
	if end := r.line.End(); r.reach.Since.IsZero() || end.Before(r.reach.Since) {
		r.reach.Since = end.UTC()
	}
	return true
}

// record gives a line to do if it is a record that is wanted.
func (r *reading) record(line []byte) error {
	if ours(line) && (!ended(line) || !r.filter.Possible(line)) || !r.decode(line) {
		return nil
	}
	l := &r.line
	if l.Event != connlog.End || !r.filter.Match(l) {
		return nil
	}
	return r.do(l)
}

// ours tells whether a line is whole, and looks like one of this program.
func ours(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"time":"`)) && bytes.HasSuffix(line, []byte("}\n"))
}

// ended tells whether it may be of a connection that has ended.
func ended(line []byte) bool {
	_, event, ok := bytes.Cut(line[:min(len(line), 80)], []byte(`,"event":"`))
	return !ok || bytes.HasPrefix(event, []byte(connlog.End))
}

// decode reads a line. One that is no record is damaged.
func (r *reading) decode(line []byte) bool {
	r.line = connlog.Line{}
	if err := json.Unmarshal(bytes.TrimSpace(line), &r.line); err != nil || r.line.Time.IsZero() {
		r.reach.Damaged++
		return false
	}
	return true
}
