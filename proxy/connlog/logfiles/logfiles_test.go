package logfiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// recordOf is the record of a connection that ended so many seconds after noon.
func recordOf(id uint64) *record.Record {
	return &record.Record{
		ID: id, Start: noon.Add(time.Duration(id)*time.Second - 10*time.Millisecond), Duration: 10 * time.Millisecond,
		Service: service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
		Client:  netip.MustParseAddrPort("10.0.0.9:41234"), Outcome: record.OutcomeOK, CloseType: record.FIN,
	}
}

// text is the log of some records.
func text(from, to uint64) (b []byte) {
	for id := from; id < to; id++ {
		b = connlog.AppendJSON(b, connlog.From(recordOf(id)))
	}
	return b
}

func zipped(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	if err := w.Close(); err != nil {
		panic(err)
	}
	return z.Bytes()
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// filter is of flags as key=value.
func filter(t testing.TB, flags ...string) *connlog.Filter {
	t.Helper()
	f := &connlog.Filter{}
	for _, flag := range flags {
		key, value, _ := strings.Cut(flag, "=")
		if err := f.Add(false, key, value, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// read returns the ids of the records that a log has.
func read(t testing.TB, l Log, f *connlog.Filter) (ids []uint64, reach Reach) {
	t.Helper()
	reach, err := l.Read(t.Context(), f, func(line *connlog.Line) error {
		ids = append(ids, line.ID)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ids, reach
}

// upTo are the numbers from one on.
func upTo(from, to uint64) (ids []uint64) {
	for id := from; id < to; id++ {
		ids = append(ids, id)
	}
	return ids
}

// What a connection log writes, rotates and compresses is read back, each record once and in order.
func TestReadsWhatALogWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "connections.json")
	daemon := logrus.New()
	daemon.SetOutput(io.Discard)
	log, err := connlog.NewLog(connlog.Options{Path: path, Format: "json", Log: daemon, Buffer: 100_000,
		Rotate: connlog.Rotation{Size: 1 << 20, Files: 50, Compress: true}})
	if err != nil {
		t.Fatal(err)
	}
	const all = 8_000
	for id := uint64(1); id <= all; id++ {
		log.Put(connlog.Report{Event: connlog.End, Record: recordOf(id)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Run(ctx); err != nil {
		t.Fatal(err)
	}
	ids, reach := read(t, Log{Path: path, Format: "json", Keeps: 50}, filter(t))
	for { // until all are compressed: files come and go until then
		all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "connections-*.json"))
		if len(all) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if d := cmp.Diff(upTo(1, all+1), ids); d != "" {
		t.Error("records: ", d)
	}
	if reach.Files < 3 || !reach.Since.Equal(noon.Add(time.Second)) || reach.Damaged > 0 || reach.Skipped != nil {
		t.Errorf("%+v", reach)
	}
}

// The names of renamed files, of this program and of logrotate, and which files are left out.
func TestNamesOfRenamedFiles(t *testing.T) {
	for name, is := range map[string]bool{
		"connections-2026-11-21T12-00-00.000.json":    true,
		"connections-2026-11-21T12-00-00.000.json.gz": true,
		"connections.json.1":                          true,
		"connections.json.12.gz":                      true,
		"connections.json-20261121":                   true,
		"connections-20261121.json.gz":                true,
		"connections.json-2026112112-1795000000.gz":   true,
		"connections.json.bak":                        false,
		"connections-of-yesterday.json":               false,
		"connections2.json":                           false,
		"connections.jso":                             false,
		"connections-.json":                           false,
		"other.json.1":                                false,
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), text(1, 3))
		ids, _ := read(t, Log{Path: filepath.Join(dir, "connections.json"), Format: "json"}, filter(t))
		if (len(ids) == 2) != is {
			t.Errorf("%s: read %d records, want that it is of the log: %v", name, len(ids), is)
		}
	}
}

// Files that end before what is asked for are not read, and say how far back the log goes; those of logrotate are in
// the order of time, which is not that of their names.
func TestOrderAndReach(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	for name, ids := range map[string][2]uint64{
		"log": {31, 41}, "log.1": {21, 31}, "log.2.gz": {11, 21}, "log.10.gz": {1, 11},
	} {
		b := text(ids[0], ids[1])
		if strings.HasSuffix(name, ".gz") {
			b = zipped(b)
		}
		write(t, filepath.Join(dir, name), b)
		then := noon.Add(time.Duration(ids[1]) * time.Second)
		if err := os.Chtimes(filepath.Join(dir, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	l := Log{Path: path, Format: "json", Keeps: 3}
	for _, test := range []struct {
		since string
		from  uint64
		why   string
	}{
		{"2026-11-21T12:00:25Z", 25, ""},
		{"2026-11-21T12:00:40Z", 40, ""},
		{"2026-11-21T12:00:01Z", 1, ""},
		{"2026-11-21T12:00:00Z", 1, "connectionLog.maxFiles keeps 3 renamed files"},
	} {
		ids, reach := read(t, l, filter(t, "since="+test.since))
		if d := cmp.Diff(upTo(test.from, 41), ids); d != "" {
			t.Errorf("since %s: %s", test.since, d)
		}
		if want := (Reach{Since: noon.Add(time.Second), Files: 4, Why: test.why}); !cmp.Equal(want, reach) {
			t.Errorf("since %s: %s", test.since, cmp.Diff(want, reach))
		}
	}
}

// What is no record, whoever wrote it, is left out and counted, and all else is read.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	good := text(1, 4)
	var lines []byte
	lines = append(lines, "\x00\x01\x02\n{}\n[1,2]\nnull\n"...)
	lines = append(lines, `{"time":"2026-11-21T12:00:00.000000Z","event":"end","attempts":[{"endpoint":"x"}]}`+"\n"...)
	lines = append(append(lines, bytes.Repeat([]byte{'x'}, 3*maxLine)...), '\n') // too long
	lines = append(append(lines, `{"time":"`+strings.Repeat(`{"a":`, 20_000)...), '\n')
	write(t, path, slices.Concat(lines, good, []byte(`{"time":"2026-11-21T12:00:09.000000Z","event":"e`))) // being written
	z := zipped(text(1, 4000))
	write(t, filepath.Join(dir, "log.1.gz"), z[:len(z)/2])
	write(t, filepath.Join(dir, "log.2.gz"), z[:5])
	write(t, filepath.Join(dir, "log.3.gz"), zipped(make([]byte, 4<<20)))
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "log.4")); err != nil {
		t.Fatal(err)
	}
	l := Log{Path: path, Format: "json"}
	ids, reach := read(t, l, filter(t))
	if n := len(ids); n < 1000 || !slices.Equal(ids[n-3:], upTo(1, 4)) {
		t.Errorf("read %d records", n)
	}
	skipped := strings.Join(reach.Skipped, "\n")
	for _, want := range []string{
		"log.1.gz: compressed data is damaged", "log.2.gz: unexpected EOF", "log.3.gz: it has more than 200 times",
	} {
		if !strings.Contains(skipped, want) {
			t.Errorf("%q is not in %s", want, skipped)
		}
	}
	if reach.Damaged != 7 || strings.Contains(skipped, "log.4") {
		t.Errorf("%+v", reach)
	}
}

// A file that is renamed while it is read is read to its end, and the next one is too.
func TestRenamedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.json")
	write(t, path, text(1, 1000))
	var ids []uint64
	reach, err := Log{Path: path, Format: "json"}.Read(t.Context(), filter(t), func(l *connlog.Line) error {
		if ids = append(ids, l.ID); l.ID != 500 {
			return nil
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(text(1000, 3000))
		renamed := filepath.Join(filepath.Dir(path), "log-2026-11-21T13-00-00.000.json")
		err = errors.Join(err, f.Close(), os.Rename(path, renamed))
		write(t, path, text(3000, 3100))
		write(t, renamed+".gz", zipped(text(1, 3000))) // and it is being compressed
		return err
	}, nil)
	if d := cmp.Diff(upTo(1, 3100), ids); d != "" || err != nil || reach.Files != 2 {
		t.Errorf("%v, %+v: %s", err, reach, d)
	}
}

// A read ends with its context, and with an error of who it reads for.
func TestReadEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, text(1, 5_000))
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := Log{Path: path, Format: "json"}.Read(ctx, filter(t), func(*connlog.Line) error {
		n++
		cancel()
		return nil
	}, nil)
	if !errors.Is(err, context.Canceled) || n > 16 {
		t.Errorf("%v after %d records", err, n)
	}
	gone := errors.New("gone")
	_, err = Log{Path: path, Format: "json"}.Read(t.Context(), filter(t), func(*connlog.Line) error { return gone }, nil)
	if !errors.Is(err, gone) {
		t.Error(err)
	}
}

// While nothing matches, a reader hears now and then that it is busy.
func TestBusy(t *testing.T) {
	busy := errors.New("busy")
	p := pace{busy: func() error { return busy }, said: time.Now().Add(-busyTime), began: time.Now().Add(-turn), lines: 15}
	if err := p.keep(t.Context()); !errors.Is(err, busy) {
		t.Errorf("after a second: %v", err)
	}
	if p.began, p.lines = p.began.Add(-turn), 15; p.keep(t.Context()) != nil {
		t.Error("it is told twice in a second")
	}
}

// A log that cannot be read back says so, and what to do.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	none, empty := filepath.Join(dir, "none"), filepath.Join(dir, "empty")
	write(t, empty, nil)
	for want, l := range map[string]Log{
		"without a connection log they are gone; set connectionLog.path":               {},
		"goes to standard error, into the log of the container or unit: give that to":  {Path: "-", Format: "json"},
		"has format text, which cannot be read back: set connectionLog.format to json": {Path: "/x", Format: "text"},
		"the connection log " + none + " cannot be read: " + why(none):                 {none, "json", 0},
		"the connection log " + empty + " has no record yet":                           {empty, "json", 0},
		"the connection log " + none + "/x cannot be read: " + why(none):               {none + "/x", "json", 0},
	} {
		ids, reach := read(t, l, filter(t))
		if !strings.Contains(reach.Why, want) || len(ids) > 0 || reach.Files > 0 {
			t.Errorf("%q, want %q", reach.Why, want)
		}
	}
}

// why is what this system says of a file that is not there.
func why(path string) string {
	_, err := os.Open(path)
	failed, _ := errors.AsType[*fs.PathError](err)
	return failed.Err.Error()
}

// BenchmarkRead reads records of one Service, or of none, among others.
func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	all := text(1, 50_000)
	write(b, path, all)
	for _, flag := range []string{"service=shop/cart", "service=shop/none", "until=2026-11-21T12:00:00Z"} {
		b.Run(flag, func(b *testing.B) {
			b.SetBytes(int64(len(all)))
			b.ReportAllocs()
			f := filter(b, flag)
			for b.Loop() {
				read(b, Log{Path: path, Format: "json"}, f)
			}
		})
	}
}
