package topology

import (
	"fmt"
	"os"
	"os/exec"
)

// TB has the methods of testing.TB that Require needs.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Require skips the test, naming what is missing, unless networks can be made here and the commands are in PATH. Under
// REQUIRE_ALL=1 the test fails instead.
func Require(t TB, commands ...string) {
	t.Helper()
	if err := missing(commands); err != nil {
		Lack(t, "needs network namespaces and %v: %v", commands, err)
	}
}

// Lack skips the test because something that it names is missing, or fails it under REQUIRE_ALL=1.
func Lack(t TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_ALL") == "1" {
		t.Fatalf(format, args...)
		return // a TB that is not of a test goes on
	}
	t.Skipf(format, args...)
}

func missing(commands []string) error {
	if err := Check(); err != nil {
		return err
	}
	for _, c := range append([]string{"nsenter"}, commands...) {
		if _, err := exec.LookPath(c); err != nil {
			return fmt.Errorf("no %s command: %w", c, err)
		}
	}
	return nil
}
