package kube

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"
)

// Times of following files.
const (
	settleTime   = 50 * time.Millisecond // quiet after which a change is taken to be complete
	settleAtMost = time.Second           // … or this long after it began, when there is no quiet
	rescanPeriod = 5 * time.Second       // all files are looked at, whatever the host notified
)

// notifier asks the host to notify changes in the folders that concern the sources. Where the host refuses (its limits are
// low), that is said once, and the rescan finds changes a little later.
type notifier struct {
	notify *fsnotify.Watcher // nil: none
	events chan fsnotify.Event
	errors chan error
	dirs   map[string]os.FileInfo // folders that are watched
	said   bool
	log    logrus.FieldLogger
}

func newNotifier(log logrus.FieldLogger) *notifier {
	w := &notifier{dirs: map[string]os.FileInfo{}, log: log}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.say(err)
		return w
	}
	w.notify, w.events, w.errors = notify, notify.Events, notify.Errors
	return w
}

func (w *notifier) close() {
	if w.notify != nil {
		_ = w.notify.Close() // nothing hangs on it any more
	}
}

func (w *notifier) say(err error) {
	if !w.said {
		w.said = true
		w.log.WithError(err).Warnf("watch manifests: changes are found every %v only", rescanPeriod)
	}
}

// follow watches the folders of the sources and those around them. One that another took the place of is watched anew.
func (w *notifier) follow(sources []*source) {
	if w.notify == nil {
		return
	}
	for _, src := range sources {
		if src.stream {
			continue
		}
		w.add(filepath.Dir(src.path))
		if src.folder {
			w.add(src.path)
		}
	}
}

func (w *notifier) add(dir string) {
	info, err := os.Stat(dir)
	before := w.dirs[dir]
	if err == nil && before != nil && os.SameFile(before, info) {
		return
	}
	if before != nil {
		_ = w.notify.Remove(dir) // it may be gone already
		delete(w.dirs, dir)
	}
	if err != nil {
		return // found by the rescan when it is back
	}
	if err := w.notify.Add(dir); err != nil {
		w.say(err)
		return
	}
	w.dirs[dir] = info
}

// pending is what is known to have changed and waits for quiet.
type pending struct {
	files map[string]*source // by path
	all   bool
	since time.Time
}

func (p *pending) any() bool { return p.all || len(p.files) > 0 }

// note takes in an event about the path and tells whether it concerns the sources.
func (p *pending) note(path string, sources []*source) bool {
	concerns := false
	for _, src := range sources {
		in, base := filepath.Dir(path), filepath.Base(path)
		switch swap := strings.HasPrefix(base, ".."); { // "..data", by which a mounted ConfigMap changes as a whole
		case src.stream:
		case src.folder && path == src.path, swap && (in == src.path || in == filepath.Dir(src.path)):
			p.all, concerns = true, true
		case path == src.path, src.folder && in == src.path && isManifest(base):
			p.files[path], concerns = src, true
		}
	}
	return concerns
}

// followChanges takes in changes until ctx ends.
func (m *Manifests) followChanges(ctx context.Context, w *notifier) {
	rescan := time.NewTicker(rescanPeriod)
	defer rescan.Stop()
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	changed := pending{files: map[string]*source{}}
	arm := func() {
		now := time.Now()
		if changed.since.IsZero() {
			changed.since = now
		}
		quiet.Reset(min(settleTime, max(0, settleAtMost-now.Sub(changed.since))))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.events:
			if changed.note(e.Name, m.sources) {
				arm()
			}
		case <-w.errors: // events were lost
			changed.all = true
			arm()
		case <-rescan.C:
			if !changed.any() {
				m.takeIn(pending{all: true}, w)
			}
		case <-quiet.C:
			m.takeIn(changed, w)
			changed = pending{files: map[string]*source{}}
		}
	}
}

// takeIn reads what changed, as one change: the files the host named, whatever their times say, and where that is not
// enough all that look changed.
func (m *Manifests) takeIn(changed pending, w *notifier) {
	files := map[*file]struct{}{}
	if changed.all {
		for _, src := range m.sources {
			stale, err := src.scan()
			src.report(err, m.log)
			for _, f := range stale {
				files[f] = struct{}{}
			}
		}
		w.follow(m.sources)
	}
	for path, src := range changed.files {
		files[src.file(path)] = struct{}{}
	}
	m.update(readings(slices.SortedFunc(maps.Keys(files), compareFiles)))
}
