package splicetest

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/platform/netnstest"
)

// childVariable is set in the environment of a process that runs one scenario.
const childVariable = "SPLICETEST_CHILD"

func isChild() bool { return os.Getenv(childVariable) != "" }

// command runs this very test in a process of its own.
func command(t testing.TB) *exec.Cmd {
	path := strings.Split(t.Name(), "/")
	for i, name := range path {
		path[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+strings.Join(path, "/"))
	cmd.Env = append(os.Environ(), childVariable+"=1")
	return cmd
}

// runChild runs a scenario in a process of its own, which has a network of its own if it is to.
func runChild(t *trial, newNetwork bool) {
	t.Helper()
	cmd := command(t)
	if newNetwork {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		netnstest.Missing(t, "needs a network namespace of its own (root, or a user namespace): %v", err)
	}
	switch {
	case err != nil || !strings.Contains(string(out), "--- "):
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
}
