//go:build unix

package platform

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that is killed while it begins to listen leaves a folder, which the next ones remove; not the folder of one
// which is about to listen, and nothing of others.
func TestListenPrivateTidiesUp(t *testing.T) {
	folder, err := os.MkdirTemp("", "private") // the path of a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	old := time.Now().Add(-2 * abandonedAfter)
	stays := map[string]bool{privateName + "1": false, privateName + "2": true, "other": true}
	for name := range stays {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name, "s"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != privateName+"2" {
			if err := os.Chtimes(filepath.Join(folder, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	l, err := ListenPrivate("unix", filepath.Join(folder, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range stays {
		if _, err := os.Lstat(filepath.Join(folder, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %t", name, err, want)
		}
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 3 {
		t.Errorf("left are %v, %v", all, err)
	}
}
