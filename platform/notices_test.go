package platform

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A folder that took the place of another is followed in its stead, once it is asked for again.
func TestNoticesOfAReplacedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "watched")
	n := NewNotices(func(err error) { t.Error(err) })
	defer n.Close()
	hears := func(name string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for end := time.After(5 * time.Second); ; {
			select {
			case e := <-n.Events:
				if e.Name == path {
					return
				}
			case <-end:
				t.Fatalf("nothing is said of %s", name)
			}
		}
	}
	n.Follow(dir) // not there yet
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.Follow(dir)
	hears("first")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.Follow(dir)
	hears("second")
}
