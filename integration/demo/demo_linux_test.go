package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// asDemo in the environment makes the test's own program the demo.
const asDemo = "DEMO_TEST_PORTALD"

func TestMain(m *testing.M) {
	if program := os.Getenv(asDemo); program != "" {
		os.Args = []string{"demo", "--portald", program}
		main()
		os.Exit(0)
	}
	topology.Enter()
	os.Exit(m.Run())
}

// build builds portald, without the race detector: the demo is about what users run.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "portald")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program,
		"github.com/portald/portald/cmd/portald").CombinedOutput(); err != nil {
		t.Fatalf("build portald: %v\n%s", err, out)
	}
	return program
}

// command is the demo in a program of its own, with namespaces of its own inside those of the test.
func command(t *testing.T, program string, out *bytes.Buffer) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(outside(), asDemo+"="+program)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// outside is the environment without what topology.Enter left in it.
func outside() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PORTALD_TOPOLOGY=") })
}

func TestDemoKeepsItsPromises(t *testing.T) {
	topology.Require(t, "iptables", "go")
	var out bytes.Buffer
	if err := command(t, build(t), &out).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	text := out.String()
	if proved, want := strings.Count(text, "✓"), len(scenes()); proved != want ||
		!strings.Contains(text, "as promised, in") {
		t.Errorf("%d of %d scenes were proved:\n%s", proved, want, text)
	}
	if strings.Contains(text, "\x1b") {
		t.Error("colours were written to something that is no terminal")
	}
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
			t.Errorf("blanks end the line %q", line)
		}
	}
}

// A broken promise, here a portald that does nothing, ends the demo with exit code 1 and a reason.
func TestDemoFailsWithoutPortald(t *testing.T) {
	topology.Require(t, "iptables")
	var out bytes.Buffer
	err := command(t, "/bin/false", &out).Run()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(out.String(),
		"portald has ended") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// Ctrl-C in the middle leaves no process behind.
func TestDemoInterrupted(t *testing.T) {
	topology.Require(t, "iptables", "go")
	program := build(t)
	var out bytes.Buffer
	cmd := command(t, program, &out)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil { // as a terminal does it: to the whole group
		t.Fatal(err)
	}
	err := cmd.Wait()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 130 || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("%v, want exit code 130\n%s", err, &out)
	}
	for _, pid := range running(t, program) {
		t.Errorf("process %s of the demo still runs", pid)
	}
}

// running lists the processes whose command line names a program.
func running(t *testing.T, program string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && bytes.Contains(line, []byte(program)) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

func TestFold(t *testing.T) {
	got := fold("t a/b:c tcp 1 → 2 (ClusterIP) → 3 p  ok  fin by client  1 B up  [tried 4: refused 1 ms]  " +
		"[tried 5: timeout 2 ms]")
	want := []string{"t a/b:c tcp 1 →\u00a02 (ClusterIP) →\u00a03 p", "ok  fin by client  1 B up",
		"[tried 4: refused 1 ms]", "[tried 5: timeout 2 ms]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestWrap(t *testing.T) {
	got := wrap("one two  three four", 10)
	if want := []string{"one two", "three four"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
