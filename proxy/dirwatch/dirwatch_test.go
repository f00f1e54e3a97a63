package dirwatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"
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
