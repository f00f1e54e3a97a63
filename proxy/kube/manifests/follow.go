package manifests

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/platform"
)

// Times of following files.
const (
	settleTime   = 50 * time.Millisecond // quiet after which a change is taken to be complete
	settleAtMost = time.Second           // … or this long after it began, when there is no quiet
	rescanPeriod = 5 * time.Second       // all files are looked at, whatever the host notified
)

// follow asks for watcher of the folders of the sources and of those around them.
func follow(n *platform.DirWatcher, sources []*location) {
	for _, src := range sources {
		if src.stream {
			continue
		}
		n.Add(filepath.Dir(src.path))
		if src.folder {
			n.Add(src.path)
		}
	}
}

// pending is what is known to have changed and waits for quiet.
type pending struct {
	files map[string]*location // by path
	all   bool
	since time.Time
}

func (p *pending) any() bool { return p.all || len(p.files) > 0 }

// note takes in an event about the path and tells whether it concerns the sources.
func (p *pending) note(path string, sources []*location) bool {
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
func (m *Source) followChanges(ctx context.Context, n *platform.DirWatcher) {
	rescan := time.NewTicker(rescanPeriod)
	defer rescan.Stop()
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	changed := pending{files: map[string]*location{}}
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
		case e := <-n.Events:
			if changed.note(e.Name, m.sources) {
				arm()
			}
		case <-n.Lost: // events were lost
			changed.all = true
			arm()
		case <-rescan.C:
			if !changed.any() {
				m.takeIn(pending{all: true}, n)
			}
		case <-quiet.C:
			m.takeIn(changed, n)
			changed = pending{files: map[string]*location{}}
		}
	}
}

// takeIn reads what changed, as one change: the files the host named, whatever their times say, and where that is not
// enough all that look changed.
func (m *Source) takeIn(changed pending, n *platform.DirWatcher) {
	files := map[*file]struct{}{}
	if changed.all {
		for _, src := range m.sources {
			stale, err := src.scan()
			src.report(err, m.log)
			for _, f := range stale {
				files[f] = struct{}{}
			}
		}
		follow(n, m.sources)
	}
	for path, src := range changed.files {
		files[src.file(path)] = struct{}{}
	}
	m.update(readings(slices.SortedFunc(maps.Keys(files), compareFiles)))
}
