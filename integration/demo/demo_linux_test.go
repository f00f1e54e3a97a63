package main

import (
	"bytes"
	"context"
	"net"
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

// asDemo is the environment variable that makes the test binary run as the demo.
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

// build compiles portald without the race detector, as users run it.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "portald")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program,
		"github.com/portald/portald/cmd/portald")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build, whose objects are in the cache
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build portald: %v\n%s", err, out)
	}
	return program
}

// command runs the demo as a separate process, with its own namespaces nested in those of the test.
func command(t *testing.T, program string, out *bytes.Buffer) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(outside(), asDemo+"="+program)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// outside returns the environment without the variable of topology.Enter.
func outside() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PORTALD_TOPOLOGY=") })
}

func TestDemoPasses(t *testing.T) {
	topology.Require(t, "iptables", "go")
	var out bytes.Buffer
	if err := command(t, build(t), &out).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	text := out.String()
	if proved, want := strings.Count(text, "\n  ✓ "), len(scenes()); proved != want ||
		!strings.Contains(text, "scenes passed in") {
		t.Errorf("%d of %d scenes passed:\n%s", proved, want, text)
	}
	if strings.Contains(text, "\x1b") {
		t.Error("colours were written to an output that is no terminal")
	}
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
			t.Errorf("trailing blanks in line %q", line)
		}
	}
}

// A failed scene, here with a portald that exits at once, ends the demo with exit code 1 and an error message.
func TestDemoFailsWithoutPortald(t *testing.T) {
	topology.Require(t, "iptables")
	var out bytes.Buffer
	err := command(t, "/bin/false", &out).Run()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(out.String(),
		"portald 1 has ended") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// Ctrl-C during the demo leaves no process behind.
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
	// To the whole process group, as a terminal does.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
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

// A download that lacks a byte, or has a wrong one, is noticed.
func TestDownload(t *testing.T) {
	wrong := slices.Clone(file())
	wrong[fileSize/2]++
	for name, c := range map[string]struct {
		sent []byte
		good bool
	}{"whole": {file(), true}, "short": {file()[1:], false}, "wrong": {wrong, false}} {
		d, err := startDownload(t.Context(), func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				_, _ = server.Read(make([]byte, 64))
				_, _ = server.Write(c.sent)
			}()
			return client, nil
		}, "")
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := d.finish(); (err == nil) != c.good || c.good && sum != fileSum() {
			t.Errorf("%s: %s, %v", name, sum, err)
		}
	}
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

// The records of clients that waited for a pod are told from those that waited for a dial's timeout.
func TestWaits(t *testing.T) {
	for record, want := range map[string]int{
		"t a/b:c tcp 1 → 2  ok  fin by client  connect 1.3 s  first byte 1.3 s  total 1.3 s":        1,
		"t a/b:c tcp 1 → 2  ok  fin by client  connect 251 ms  first byte 1.2 s  total 1.3 s":       0,
		"t a/b:c tcp 1 → 2  no_endpoint  reset by proxy  0 B up  0 B down  first byte -  total 3 s": 0,
	} {
		if got := waits(record); got != want {
			t.Errorf("%q: %d", record, got)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
