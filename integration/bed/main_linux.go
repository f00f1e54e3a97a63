package bed

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// Portald is the binary under test, built once for all tests.
var Portald string

// InVM tells that the tests run in the virtual machine of vmrun, which has IPVS, and no Go: portald was built before.
var InVM = os.Getenv("VM_IN_GUEST") == "1"

// VMTimeout is a time limit for where the tests run: without hardware support a virtual machine takes its time.
func VMTimeout(d time.Duration) time.Duration {
	if InVM {
		return 10 * d
	}
	return d
}

const guestPortald = "testdata/guest/portald"

// beside is how many tests run at a time: most of their time is spent waiting.
const beside = 4

// Main builds portald and runs the tests of a package: its TestMain. It does not return.
func Main(m *testing.M) {
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
	if InVM {
		path, err := filepath.Abs(guestPortald)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		Portald = path
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "portald")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	Portald = filepath.Join(dir, "portald")
	if err := build(Portald); err != nil {
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
	out, err := exec.Command("go", append(args, "../../cmd/portald")...).CombinedOutput()
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
