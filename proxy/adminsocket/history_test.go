package adminsocket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/logfiles"
)

// withFiles is a daemon that keeps so many records in memory, and all in a log of that path.
func withFiles(path string, kept int) Daemon {
	d := (&fake{}).daemon()
	d.Records, d.Files = connlog.NewStream(kept), logfiles.Log{Path: path, Format: "json"}
	return d
}

// appendTo appends records to a log.
func appendTo(t *testing.T, path string, ids ...uint64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r := ended(id)
		r.Start = time.Unix(int64(id), 0)
		if _, err := f.Write(connlog.AppendJSON(nil, connlog.From(r))); err != nil {
			t.Error(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// observe has a stream keep records, as appendTo writes them.
func observe(s *connlog.Stream, ids ...uint64) {
	for _, id := range ids {
		r := ended(id)
		r.Start = time.Unix(int64(id), 0)
		s.Observe(r)
	}
}

// history is what a query yields, as texts.
func history(t *testing.T, c *Client, q RecordQuery) (ids []uint64, reach Reach) {
	t.Helper()
	q.History = true
	err := c.ReadRecords(t.Context(), q, RecordReader{
		Record: func(l *connlog.Line) error { ids = append(ids, l.ID); return nil },
		Gap:    func(g Gap) error { t.Errorf("%d missing", g.Missed); return nil },
		Reach:  func(r Reach) error { reach = r; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, reach
}

func sinceSecond(t *testing.T, s int64) connlog.Filter {
	t.Helper()
	f := connlog.Filter{}
	if err := f.Add(false, "since", time.Unix(s, 0).Format(time.RFC3339Nano), time.Now()); err != nil {
		t.Fatal(err)
	}
	return f
}

// Records of files come before those in memory, and none twice; and files are read only where memory does not do.
func TestFilesBeforeMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	d := withFiles(path, 4)
	c := serve(t, NewHandler(d))
	appendTo(t, path, 1, 2, 3, 4, 5, 6)
	observe(d.Records, 3, 4, 5, 6, 7, 8) // keeps 5 to 8, of which the last two are not written yet
	const all = 1 << 20
	for _, test := range []struct {
		since int64
		last  int
		want  string
		files int
	}{
		{1, all, "1 2 3 4 5 6 7 8", 1},
		{3, all, "3 4 5 6 7 8", 1},
		{5, all, "5 6 7 8", 0},
		{7, all, "7 8", 0},
		{1, 2, "7 8", 0},
		{1, 5, "4 5 6 7 8", 1},
		{1, 20, "1 2 3 4 5 6 7 8", 1},
		{1, 0, "", 0},
	} {
		ids, reach := history(t, c, RecordQuery{Filter: sinceSecond(t, test.since), Last: test.last})
		if got := texts(ids); got != test.want || reach.Files != test.files {
			t.Errorf("since %d, last %d: %s, want %s, from %+v", test.since, test.last, got, test.want, reach)
		}
	}
	_, reach := history(t, c, RecordQuery{Filter: sinceSecond(t, 0), Last: all})
	if reach.Why != "the connection log begins then" || !reach.Since.Equal(time.Unix(1, 0)) {
		t.Errorf("%+v", reach)
	}
}

func texts(ids []uint64) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(" ")
		b.WriteString(time.Duration(id).String())
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "ns", "")
}

// While records come, and are written and rotated, whoever reads the files and follows misses none and gets none twice.
func TestFilesWhileRecordsCome(t *testing.T) {
	path := filepath.Join(t.TempDir(), "connections.json")
	d := withFiles(path, connlog.DefaultStream)
	c := serve(t, NewHandler(d))
	daemon := logrus.New()
	daemon.SetOutput(io.Discard)
	log, err := connlog.NewLog(connlog.Options{Path: path, Format: "json", Log: daemon,
		Rotate: connlog.Rotation{Size: 1 << 20, Files: 100, Compress: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	logged := make(chan error, 1)
	go func() { logged <- log.Run(ctx) }()
	const before = 4000
	come := func(id uint64) {
		r := ended(id)
		d.Records.Observe(r)
		log.Put(connlog.Report{Event: connlog.End, Record: r})
	}
	for id := uint64(1); id <= before; id++ {
		come(id)
	}
	for { // until it was rotated once
		if all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "connections-*")); len(all) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	next, last, enough := uint64(1), uint64(0), errors.New("enough")
	var reach Reach
	q := RecordQuery{Filter: sinceSecond(t, 1), Last: 1 << 20, Follow: true, History: true}
	err = c.ReadRecords(t.Context(), q, RecordReader{
		Record: func(l *connlog.Line) error {
			if l.ID != next {
				t.Errorf("%d comes, want %d", l.ID, next)
				return enough
			}
			if next++; reach.Files == 0 && next%2 == 0 { // half as fast as they are read
				come(before + next/2)
			} else if next == last {
				return enough
			}
			return nil
		},
		Gap:   func(g Gap) error { t.Errorf("%d missing", g.Missed); return nil },
		Reach: func(r Reach) error { reach, last = r, before+next/2+1; return nil },
	})
	if !errors.Is(err, enough) || reach.Files < 2 || reach.Skipped != nil {
		t.Errorf("%v, %+v", err, reach)
	}
	stop()
	if err := <-logged; err != nil || log.Dropped() > 0 {
		t.Errorf("%v, %d dropped", err, log.Dropped())
	}
	for { // until all are compressed: files come and go until then
		all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "connections-*.json"))
		if len(all) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

// Files are for root: who asks at the address of the metrics is refused.
func TestFilesAreForRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	appendTo(t, path, 1)
	r := httptest.NewRequest(http.MethodGet, "/v1/records?last=9&history=1", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:10249"
	w := httptest.NewRecorder()
	if NewHandler(withFiles(path, 1)).View().ServeHTTP(w, r); w.Code != http.StatusBadRequest {
		t.Errorf("answers %d: %s", w.Code, w.Body)
	}
}

// Few files are read at a time: who comes next is told so. A place is free again when its client leaves.
func TestFewRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	appendTo(t, path, make([]uint64, 2000)...) // more than a socket holds
	c := serve(t, NewHandler(withFiles(path, 1)))
	q := RecordQuery{Filter: sinceSecond(t, 0), Last: 1 << 20, History: true}
	ctx, leave := context.WithCancel(t.Context())
	begun, left := make(chan struct{}), make(chan error)
	for range maxReaders {
		go func() {
			first := true
			left <- c.ReadRecords(ctx, q, RecordReader{Record: func(*connlog.Line) error {
				if first {
					first = false
					begun <- struct{}{}
					<-ctx.Done()
				}
				return nil
			}})
		}()
		<-begun
	}
	nothing := RecordReader{Record: func(*connlog.Line) error { return nil }, Gap: func(Gap) error { return nil }}
	err := c.ReadRecords(t.Context(), q, nothing)
	if err == nil || !strings.Contains(err.Error(), errManyReaders.Error()) {
		t.Errorf("one more: %v", err)
	}
	leave()
	for range maxReaders {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for c.ReadRecords(t.Context(), q, nothing) != nil { // the daemon notices by and by
		if t.Context().Err() != nil {
			t.Fatal("the places are not free again")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A daemon of a release without History answers with what it has in memory.
func TestDaemonWithoutHistory(t *testing.T) {
	d := withFiles(filepath.Join(t.TempDir(), "log"), 4)
	h := NewHandler(d)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { versioned(h.readOnly).ServeHTTP(w, r) }))
	observe(d.Records, 1, 2)
	if ids, reach := history(t, c, RecordQuery{Last: 9}); texts(ids) != "1 2" || !reach.Since.IsZero() {
		t.Errorf("%v %+v", ids, reach)
	}
}
