package dirwatch

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A directory that replaced another is watched once it is added again.
func TestReplacedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "watched")
	w := New(func(err error) { t.Error(err) })
	defer w.Close()
	reports := func(name string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for end := time.After(5 * time.Second); ; {
			select {
			case e := <-w.Events:
				if e.Name == path {
					return
				}
			case <-end:
				t.Fatalf("no event for %s", name)
			}
		}
	}
	w.Add(dir) // does not exist yet
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.Add(dir)
	reports("first")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.Add(dir)
	reports("second")
}

// Directories can be added while more events wait than fsnotify itself keeps, and none is lost.
func TestAddWhileEventsWait(t *testing.T) {
	const files = 500
	top := t.TempDir()
	w := New(func(err error) { t.Error(err) })
	defer w.Close()
	w.Add(top)
	missing := map[string]bool{}
	for i := range files {
		path := filepath.Join(top, strconv.Itoa(i))
		missing[path] = true
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	added := make(chan struct{})
	go func() { w.Add(t.TempDir()); close(added) }()
	select {
	case <-added:
	case <-time.After(10 * time.Second):
		t.Fatal("Add waits")
	}
	for end := time.After(10 * time.Second); len(missing) > 0; {
		select {
		case e := <-w.Events:
			delete(missing, e.Name)
		case err := <-w.Lost:
			t.Fatal(err)
		case <-end:
			t.Fatalf("no event for %d of %d files", len(missing), files)
		}
	}
}

// Who does not read for a long time learns that events were lost, once.
func TestLost(t *testing.T) {
	events := make(chan fsnotify.Event)
	q := startQueue(events, nil)
	defer q.close()
	for range maxQueue + 2 {
		events <- fsnotify.Event{Name: "x"}
	}
	if err := <-q.lost; err == nil {
		t.Error("lost nothing")
	}
	for range maxQueue {
		<-q.events
	}
	select {
	case e := <-q.events:
		t.Error("one more event:", e)
	case err := <-q.lost:
		t.Error("lost twice:", err)
	default:
	}
}
