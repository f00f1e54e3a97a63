// Package dirwatch reports changes in directories, of manifests and of the configuration file. A report may be lost, or
// the host may refuse to watch: callers poll too, seldom.
package dirwatch

import (
	"os"

	"github.com/fsnotify/fsnotify"
)

// Watcher reports changes in directories. The host may refuse to watch (its limits are low) and loses events, so
// callers also poll from time to time. It is used by one goroutine.
type Watcher struct {
	Events <-chan fsnotify.Event // Name is the path
	Lost   <-chan error          // events were lost

	watcher *fsnotify.Watcher      // nil: the host refused
	queue   *queue                 // between it and the channels
	dirs    map[string]os.FileInfo // that are watched
	refused func(error)            // nil: was called
}

// New returns a watcher of no directory yet. Refused is called once if the host refuses.
func New(refused func(error)) *Watcher {
	w := &Watcher{dirs: map[string]os.FileInfo{}, refused: refused}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.refuse(err)
		return w
	}
	w.watcher, w.queue = watcher, startQueue(watcher.Events, watcher.Errors)
	w.Events, w.Lost = w.queue.events, w.queue.lost
	return w
}

// Close ends watching.
func (w *Watcher) Close() {
	if w.watcher != nil {
		w.queue.close()
		_ = w.watcher.Close() // nothing depends on it any more
	}
}

func (w *Watcher) refuse(err error) {
	if w.refused != nil {
		w.refused(err)
		w.refused = nil
	}
}

// Add watches a directory, if it exists. Called again for the same path, it finds out whether the directory was
// replaced by another, and watches that one.
func (w *Watcher) Add(dir string) {
	if w.watcher == nil {
		return
	}
	info, err := statDir(dir)
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

// statDir is os.Stat. On Windows that leaves out which directory it is: the first SameFile would look for it, by the
// path, when another may be there.
func statDir(dir string) (os.FileInfo, error) {
	info, err := os.Stat(dir)
	if err == nil {
		os.SameFile(info, info)
	}
	return info, err
}
