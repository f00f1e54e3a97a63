package platform

import (
	"os"
	"strings"
	"testing"
)

// The parent of a process is named only if the process is the one that is meant.
func TestParent(t *testing.T) {
	name, _, err := processStatus(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	parent := Parent(name, os.Getpid())
	if ppid := os.Getppid(); ppid > 0 && !strings.Contains(parent, " (pid ") {
		t.Errorf("the parent of this process is %q", parent)
	}
	for pid, process := range map[int]string{os.Getpid(): "nft", 1 << 22: name} {
		if got := Parent(process, pid); got != "" {
			t.Errorf("the parent of %s, %d: %q", process, pid, got)
		}
	}
}
