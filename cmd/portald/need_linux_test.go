package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// With NO_INSTALL=1 a target names what is missing, and installs nothing, whoever the user is.
func TestNeedOnlyNames(t *testing.T) {
	called := filepath.Join(t.TempDir(), "apt-get")
	stub := "#!/bin/sh\necho called >>" + called + ".log\n"
	if err := os.WriteFile(called, []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../.ci/need", "sh=dash", "no-such-command=one", "/no/such/file=two")
	cmd.Env = append(os.Environ(), "NO_INSTALL=1", "PATH="+filepath.Dir(called)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v, want exit code 1\n%s", err, out)
	}
	if want := "packages are missing: one two. On Debian, as root: apt-get install"; !strings.Contains(string(out), want) {
		t.Errorf("%q, want %q", out, want)
	}
	if _, err := os.Stat(called + ".log"); err == nil {
		t.Error("it called apt-get")
	}
}
