package platform

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A process of its own is the one that is to be killed first.
func TestSetOOMScore(t *testing.T) {
	if os.Getenv("OOM") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSetOOMScore$", "-test.v")
		cmd.Env = append(os.Environ(), "OOM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := SetOOMScore(1000); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || string(got) != "1000\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := SetOOMScore(1001); err == nil || !strings.Contains(err.Error(), "set the out-of-memory score to 1001: ") {
		t.Errorf("a score there is not: %v", err)
	}
}
