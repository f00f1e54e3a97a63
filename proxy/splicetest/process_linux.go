package splicetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/netnstest"
)

// soleSuite is the file that is locked while this process runs a suite.
var soleSuite *os.File

// aside has this process run where no other has a port, and not beside another that runs a suite: each would take the
// time that the other's scenarios reckon with.
func aside() {
	netnstest.Alone()
	if testing.Short() || isChild() {
		return
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("splicetest-%d.lock", os.Getuid()))
	var err error
	if soleSuite, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600); err == nil {
		err = unix.Flock(int(soleSuite.Fd()), unix.LOCK_EX) // until the process ends
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "splicetest: other suites may run beside this one:", err)
	}
}

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
