package platform

import (
	"os"

	"github.com/fsnotify/fsnotify"
)

// Notices are the host's, of what happens in folders. Whoever follows a folder by them has to look at it from time to
// time as well: the host may refuse (its limits are low), and loses some. One goroutine uses it.
type Notices struct {
	Events <-chan fsnotify.Event // Name is the path
	Lost   <-chan error          // there were more

	watcher *fsnotify.Watcher      // nil: the host refused
	dirs    map[string]os.FileInfo // folders that are watched
	refused func(error)            // nil: told
}

// NewNotices returns notices of no folder yet. Refused is told once if the host refuses.
func NewNotices(refused func(error)) *Notices {
	n := &Notices{dirs: map[string]os.FileInfo{}, refused: refused}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		n.tell(err)
		return n
	}
	n.watcher, n.Events, n.Lost = watcher, watcher.Events, watcher.Errors
	return n
}

// Close ends them.
func (n *Notices) Close() {
	if n.watcher != nil {
		_ = n.watcher.Close() // nothing hangs on it any more
	}
}

func (n *Notices) tell(err error) {
	if n.refused != nil {
		n.refused(err)
		n.refused = nil
	}
}

// Follow asks for notices of a folder, if it is there. Asked again, it finds out whether another took the folder's
// place, and follows that one.
func (n *Notices) Follow(dir string) {
	if n.watcher == nil {
		return
	}
	info, err := os.Stat(dir)
	before := n.dirs[dir]
	if err == nil && before != nil && os.SameFile(before, info) {
		return
	}
	if before != nil {
		_ = n.watcher.Remove(dir) // it may be gone already
		delete(n.dirs, dir)
	}
	if err != nil {
		return // it may come back
	}
	if err := n.watcher.Add(dir); err != nil {
		n.tell(err)
		return
	}
	n.dirs[dir] = info
}
