package platform

import (
	"os"

	"github.com/fsnotify/fsnotify"
)

// DirWatcher reports changes in directories. The host may refuse to watch (its limits are low) and loses events, so
// callers also poll from time to time. It is used by one goroutine.
type DirWatcher struct {
	Events <-chan fsnotify.Event // Name is the path
	Lost   <-chan error          // events were lost

	watcher *fsnotify.Watcher      // nil: the host refused
	dirs    map[string]os.FileInfo // that are watched
	refused func(error)            // nil: was called
}

// NewDirWatcher returns a watcher of no directory yet. Refused is called once if the host refuses.
func NewDirWatcher(refused func(error)) *DirWatcher {
	w := &DirWatcher{dirs: map[string]os.FileInfo{}, refused: refused}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.refuse(err)
		return w
	}
	w.watcher, w.Events, w.Lost = watcher, watcher.Events, watcher.Errors
	return w
}

// Close ends watching.
func (w *DirWatcher) Close() {
	if w.watcher != nil {
		_ = w.watcher.Close() // nothing depends on it any more
	}
}

func (w *DirWatcher) refuse(err error) {
	if w.refused != nil {
		w.refused(err)
		w.refused = nil
	}
}

// Add watches a directory, if it exists. Called again for the same path, it finds out whether the directory was
// replaced by another, and watches that one.
func (w *DirWatcher) Add(dir string) {
	if w.watcher == nil {
		return
	}
	info, err := os.Stat(dir)
	before := w.dirs[dir]
	if err == nil && before != nil && os.SameFile(before, info) {
		return
	}
	if before != nil {
		_ = w.watcher.Remove(dir) // it may not exist any more
		delete(w.dirs, dir)
	}
	if err != nil {
		return // it may come back
	}
	if err := w.watcher.Add(dir); err != nil {
		w.refuse(err)
		return
	}
	w.dirs[dir] = info
}
