package manifests

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/proxy/dirwatch"
)

// When changes of files are read.
const (
	quietPeriod  = 50 * time.Millisecond // without events, after which a change is considered complete
	maxDelay     = time.Second           // after the first event, if events keep coming
	rescanPeriod = 5 * time.Second
)

// watchDirs watches the directories of the locations and those around them.
func watchDirs(w *dirwatch.Watcher, locations []*location) {
	for _, l := range locations {
		if l.stream {
			continue
		}
		w.Add(filepath.Dir(l.path))
		if l.dir {
			w.Add(l.path)
		}
	}
}

// pending are the changes that are to be read after a quiet period.
type pending struct {
	files map[string]*location // by path
	all   bool
	since time.Time
}

func (p *pending) any() bool { return p.all || len(p.files) > 0 }

// add adds the change that an event for a path means. False: none of the locations is affected.
func (p *pending) add(path string, locations []*location) bool {
	affected := false
	for _, l := range locations {
		in, base := filepath.Dir(path), filepath.Base(path)
		switch swap := strings.HasPrefix(base, ".."); { // "..data": a mounted ConfigMap is replaced as a whole
		case l.stream:
		case l.dir && path == l.path, swap && (in == l.path || in == filepath.Dir(l.path)):
			p.all, affected = true, true
		case path == l.path, l.dir && in == l.path && isManifest(base):
			p.files[path], affected = l, true
		}
	}
	return affected
}

// followChanges reads changes until ctx ends.
func (s *Source) followChanges(ctx context.Context, w *dirwatch.Watcher) {
	rescan := time.NewTicker(s.rescan)
	defer rescan.Stop()
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	changed := pending{files: map[string]*location{}}
	arm := func() {
		now := time.Now()
		if changed.since.IsZero() {
			changed.since = now
		}
		quiet.Reset(min(quietPeriod, max(0, maxDelay-now.Sub(changed.since))))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.Events:
			if changed.add(e.Name, s.locations) {
				arm()
			}
		case <-w.Lost:
			changed.all = true
			arm()
		case <-rescan.C:
			if !changed.any() {
				s.readChanges(pending{all: true}, w)
			}
		case <-quiet.C:
			s.readChanges(changed, w)
			changed = pending{files: map[string]*location{}}
		}
	}
}

// readChanges reads what changed, as one change: files that had events, even if their times did not change, and after
// lost events all files that differ from what was read.
func (s *Source) readChanges(changed pending, w *dirwatch.Watcher) {
	files := map[*file]struct{}{}
	if changed.all {
		for _, l := range s.locations {
			stale, err := l.scan()
			l.report(err, s.log)
			for _, f := range stale {
				files[f] = struct{}{}
			}
		}
		watchDirs(w, s.locations)
	}
	for path, l := range changed.files {
		files[l.file(path)] = struct{}{}
	}
	s.update(readings(slices.SortedFunc(maps.Keys(files), compareFiles)))
}
