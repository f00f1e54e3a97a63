package connlog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/proxy/record"
)

// logTo returns a connection log and what the daemon's log is told.
func logTo(t testing.TB, path string, buffer int) (*Log, *test.Hook) {
	t.Helper()
	daemon, told := test.NewNullLogger()
	l, err := NewLog(Options{Path: path, Format: "json", Buffer: buffer, Log: daemon})
	if err != nil {
		t.Fatal(err)
	}
	return l, told
}

// running runs the log; the function returned ends it and returns Run's error.
func running(t *testing.T, l *Log) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

func numbered(id uint64) *record.Record {
	r := sample()
	r.ID = id
	return r
}

func ended(r *record.Record) Report { return Report{Event: End, Record: r} }

// ids returns the ids in the file, each line of which must be whole.
func ids(t *testing.T, path string) []uint64 {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return idsIn(t, text)
}

func idsIn(t *testing.T, text []byte) []uint64 {
	t.Helper()
	var out []uint64
	for line := range bytes.Lines(text) {
		var r struct{ ID uint64 }
		if err := json.Unmarshal(line, &r); err != nil || !bytes.HasSuffix(line, []byte{'\n'}) {
			t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, r.ID)
	}
	return out
}

func wantIDs(t *testing.T, got []uint64, first, last uint64) {
	t.Helper()
	if len(got) != int(last-first+1) {
		t.Fatalf("%d lines, want those of %d to %d", len(got), first, last)
	}
	for i, id := range got {
		if id != first+uint64(i) {
			t.Fatalf("line %d is of record %d", i, id)
		}
	}
}

// messages returns what the daemon's log was told, one line each.
func messages(told *test.Hook) string {
	var out []string
	for _, e := range told.AllEntries() {
		out = append(out, e.Message)
	}
	return strings.Join(out, "\n")
}

func TestLogWritesWithinItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		l, told := logTo(t, path, 0)
		stop := running(t, l)
		for id := range uint64(3) {
			l.Put(ended(numbered(id + 1)))
			time.Sleep(batchTime)
			synctest.Wait()
			wantIDs(t, ids(t, path), 1, id+1)
		}
		if err := stop(); err != nil || messages(told) != "" {
			t.Fatal(err, messages(told))
		}
	})
}

func TestLogWritesAllThatWasQueuedAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := logTo(t, path, 0)
	stop := running(t, l)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				l.Put(ended(sample()))
			}
		})
	}
	wg.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(ids(t, path)); n != 4000 || l.Dropped() != 0 {
		t.Fatalf("%d lines of 4000, %d dropped", n, l.Dropped())
	}
	l.Put(ended(sample()))
	if l.Dropped() != 1 {
		t.Fatal("a record after the end is not counted as dropped")
	}
}

func TestLogFollowsRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		l, told := logTo(t, path, 0)
		stop := running(t, l)
		l.Put(ended(numbered(1)))
		time.Sleep(2 * time.Second)
		rename(t, path, path+".1")
		time.Sleep(2 * time.Second)
		l.Put(ended(numbered(2)))
		time.Sleep(2 * time.Second)
		wantIDs(t, ids(t, path+".1"), 1, 1)
		wantIDs(t, ids(t, path), 2, 2)
		if err := stop(); err != nil || messages(told) != "" {
			t.Fatal(err, messages(told))
		}
	})
}

func TestLogFollowsRemoval(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Wine and old Windows keep the name of a removed file as long as it is open")
	}
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		l, told := logTo(t, path, 0)
		stop := running(t, l)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		l.Put(ended(numbered(1)))
		if err := stop(); err != nil || messages(told) != "" {
			t.Fatal(err, messages(told))
		}
		wantIDs(t, ids(t, path), 1, 1)
	})
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestLogSurvivesALostFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "log")
		l, told := logTo(t, path, 0)
		stop := running(t, l)
		rename(t, dir, dir+".moved")
		time.Sleep(3 * time.Second)
		l.Put(ended(numbered(1))) // still has the old file
		time.Sleep(3 * time.Second)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		l.Put(ended(numbered(2)))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, ids(t, filepath.Join(dir+".moved", "log")), 1, 1)
		wantIDs(t, ids(t, path), 2, 2)
		want := "Cannot open connection log: trying again, traffic goes on\nCan open connection log again"
		if messages(told) != want || l.WriteErrors() < 5 {
			t.Fatalf("told %q, %d errors", messages(told), l.WriteErrors())
		}
	})
}

func TestLogSurvivesAFullDisk(t *testing.T) {
	const full = "/dev/full"
	requireFile(t, full)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.Symlink(full, path); err != nil {
			t.Fatal(err)
		}
		l, told := logTo(t, path, 10)
		stop := running(t, l)
		for id := range uint64(30) {
			l.Put(ended(numbered(id + 1)))
			time.Sleep(300 * time.Millisecond)
		}
		if l.Dropped() == 0 || l.WriteErrors() < 5 || l.WriteErrors() > 15 {
			t.Fatalf("%d dropped, %d errors in 9 s", l.Dropped(), l.WriteErrors())
		}
		if err := os.Remove(path); err != nil { // there is room again
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		kept := ids(t, path)
		if uint64(len(kept))+l.Dropped() != 30 || kept[0] != 1 {
			t.Fatalf("wrote %v, %d dropped, of 30", kept, l.Dropped())
		}
		want := []string{"Cannot write", "falls behind", "Can write connection log again", "dropped"}
		if got := told.AllEntries(); len(got) != len(want) {
			t.Fatalf("told %q", messages(told))
		}
		for i, e := range told.AllEntries() {
			if !strings.Contains(e.Message, want[i]) {
				t.Errorf("told %q, want something with %q", e.Message, want[i])
			}
		}
	})
}

func TestLogSaysWhatWasLostAtTheEnd(t *testing.T) {
	const full = "/dev/full"
	requireFile(t, full)
	l, _ := logTo(t, full, 10)
	stop := running(t, l)
	l.Put(ended(sample()))
	if err := stop(); err == nil || l.Dropped() != 1 {
		t.Fatalf("error %v, %d dropped", err, l.Dropped())
	}
}

// requireFile skips a test where a file of Linux is not there, or fails it where nothing may be skipped.
func requireFile(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip(path + " is not a file of Windows")
	}
	if _, err := os.Stat(path); err == nil {
		return
	}
	netnstest.Missing(t, "missing: %s", path)
}

// pipe is a file that nobody renames.
type pipe struct{ *os.File }

func (pipe) follow() (moved bool, err error) { return false, nil }

// A pipe that nobody reads stands for a disk that hangs.
func TestPutNeverWaitsForTheDisk(t *testing.T) {
	l, told := logTo(t, filepath.Join(t.TempDir(), "log"), 1000)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l.out.file.Close()
	l.out.file = pipe{w}
	stop := running(t, l)
	const all = 20_000
	start := time.Now()
	for id := range uint64(all) {
		l.Put(ended(numbered(id + 1)))
		if id%1000 == 0 {
			time.Sleep(time.Millisecond) // lets the writer run into the full pipe
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("observing took %v", took)
	}
	if l.Dropped() == 0 {
		t.Fatal("nothing was dropped although nobody reads")
	}
	var text []byte
	var wg sync.WaitGroup
	wg.Go(func() { text, _ = io.ReadAll(r) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	wg.Wait()
	if n := len(idsIn(t, text)); uint64(n)+l.Dropped() != all {
		t.Fatalf("%d written and %d dropped of %d", n, l.Dropped(), all)
	}
	if !strings.Contains(messages(told), "dropped") {
		t.Fatalf("told %q", messages(told))
	}
}

// A write that is cut short goes on where it stopped in the same file, and from the line's start in another.
func TestOutputMendsTornLines(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a pipe has no deadlines, which cut the write short here")
	}
	for _, rotated := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "log")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		o := &output{file: &followed{path, w}}
		line := []byte(strings.Repeat("x", 999) + "\n")
		for range 1000 {
			o.buf = append(o.buf, line...)
		}
		for err = nil; o.lines() == 1000 && o.torn == 0; { // on a busy machine the time is over before a write
			w.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			err = o.flush()
		}
		if err == nil || o.torn == 0 || o.torn >= len(line) {
			t.Fatalf("error %v, %d bytes torn", err, o.torn)
		}
		left := o.lines()
		var first []byte
		var wg sync.WaitGroup
		wg.Go(func() { first, _ = io.ReadAll(r) })
		w.SetWriteDeadline(time.Time{})
		if rotated {
			if err := o.follow(); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.flush(); err != nil || o.waiting() != 0 || o.lines() != 0 {
			t.Fatalf("%v, %d bytes wait", err, o.waiting())
		}
		o.close()
		wg.Wait()
		r.Close()
		second, _ := os.ReadFile(path)
		switch {
		case !rotated && !bytes.Equal(first, bytes.Repeat(line, 1000)):
			t.Error("the lines in the one file are not those written")
		case rotated && !bytes.Equal(second, bytes.Repeat(line, left)):
			t.Errorf("the new file has %d bytes, want %d lines", len(second), left)
		}
	}
}

func TestNewLogRefuses(t *testing.T) {
	daemon := logrus.New()
	if _, err := NewLog(Options{Path: "-", Format: "xml", Log: daemon}); err == nil {
		t.Error("format xml was taken")
	}
}

// A file that cannot be opened at the start is opened later, and has what was reported until then: traffic does not
// wait for the disk of a log.
func TestLogStartsWithoutItsFile(t *testing.T) {
	for name, rotate := range map[string]Rotation{"followed": {}, "rotated": {Size: mebibyte}} {
		t.Run(name, func(t *testing.T) {
			daemon, told := test.NewNullLogger()
			dir := filepath.Join(t.TempDir(), "none")
			path := filepath.Join(dir, "log")
			l, err := NewLog(Options{Path: path, Format: "json", Rotate: rotate, Log: daemon})
			if err != nil {
				t.Fatal(err)
			}
			const cannot = "Cannot open connection log: trying again, traffic goes on"
			if messages(told) != cannot {
				t.Errorf("told %q", messages(told))
			}
			stop := running(t, l)
			l.Put(ended(numbered(1)))
			time.Sleep(2 * tickTime) // it is tried again in vain
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for !strings.Contains(messages(told), "Can open connection log again") {
				time.Sleep(10 * time.Millisecond)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, ids(t, path), 1, 1)
		})
	}
}

// BenchmarkLog is the whole cost of a record: queue, format, write.
func BenchmarkLog(b *testing.B) {
	for _, format := range FormatNames() {
		b.Run(format, func(b *testing.B) {
			daemon, _ := test.NewNullLogger()
			l, err := NewLog(Options{Path: filepath.Join(b.TempDir(), "log"), Format: format, Log: daemon})
			if err != nil {
				b.Fatal(err)
			}
			r := ended(sample())
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				l.Put(r)
				if n++; n%500 == 0 {
					l.write()
				}
			}
			l.write()
		})
	}
}
