package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/portald/portald/integration/topology"
)

// portald is the binary under test, built once for all tests.
var portald string

// beside is how many tests run at a time: most of their time is spent waiting.
const beside = 4

func TestMain(m *testing.M) {
	topology.Enter()
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if topology.Check() != nil { // each test says so
		return m.Run()
	}
	if err := flag.Set("test.parallel", strconv.Itoa(beside)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "portald")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	portald = filepath.Join(dir, "portald")
	if err := build(portald); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes the binary, with the race detector where the test has it.
func build(path string) error {
	args := []string{"build", "-buildvcs=false", "-o", path}
	if raceDetector() {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "../cmd/portald")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build portald: %w\n%s", err, out)
	}
	return nil
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}
