package wine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

const probe = "./testdata/probe"

func TestMain(m *testing.M) { topology.Enter(); os.Exit(m.Run()) }

// build builds a program for Windows.
func build(t *testing.T, source string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "program.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", exe, source)
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

// Patch looks for traces of the Go compiler and of the net package: another version may differ.
func TestPatchFindsEachPlaceOnce(t *testing.T) {
	program, err := os.ReadFile(build(t, probe))
	if err != nil {
		t.Fatal(err)
	}
	found, err := Patch(program)
	if want := (Patched{UDP: 1, RemoveAll: 1}); err != nil || found != want {
		t.Errorf("found %+v, %v; want %+v", found, err, want)
	}
	if again, err := Patch(program); err != nil || again != (Patched{}) {
		t.Errorf("the second time: %+v, %v; want nothing", again, err)
	}
}

func TestPrograms(t *testing.T) {
	topology.Require(t, "ip")
	if err := Check(); err != nil {
		topology.Lack(t, "%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	prefix := open(t, ctx)
	// Wine takes a bind to 127.0.0.1, and to addresses that no interface has, for something else.
	here, alsoHere := "10.96.0.10", "10.96.0.11"
	for _, a := range []string{here, alsoHere} {
		if out, err := exec.CommandContext(ctx, "ip", "addr", "replace", a, "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}

	exe := build(t, probe)
	run := func(args ...string) (string, error) {
		cmd, err := prefix.Command(ctx, exe, args...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.Output()
		return strings.ReplaceAll(string(out), "\r\n", "\n"), err
	}
	want := "remove all: <nil>\nUDP: <nil>\nnetsh: \"[a b \\\"c]\" <nil>\n"
	if out, err := run(here, alsoHere, "a b", `"c`); err != nil || out != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	var exit *exec.ExitError
	if _, err := run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%v, want exit status 7", err)
	}
}

// open returns a prefix of its own, with a netsh that prints its arguments: Wine's prints nothing.
func open(t *testing.T, ctx context.Context) Prefix {
	t.Helper()
	if err := BindExactly(); err != nil {
		t.Fatal(err)
	}
	installation, err := Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := installation.Copy(ctx, filepath.Join(t.TempDir(), "prefix"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prefix.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if prefix, err = prefix.Replace("netsh.exe", build(t, "./testdata/echo")); err != nil {
		t.Fatal(err)
	}
	if err := prefix.Warm(ctx); err != nil {
		t.Fatal(err)
	}
	return prefix
}
