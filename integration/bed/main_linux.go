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

// InVM is true in the virtual machine of vmrun, which has IPVS but no Go: portald is built before it starts.
var InVM = os.Getenv("VM_IN_GUEST") == "1"

// VMTimeout is ten times the time limit in the virtual machine, which is slow without hardware virtualization.
func VMTimeout(d time.Duration) time.Duration {
	if InVM {
		return 10 * d
	}
	return d
}

const portaldPackage = "github.com/portald/portald/cmd/portald"

const guestPortald = "testdata/guest/portald"

// parallel is the number of tests that run at a time: they spend most of their time waiting.
const parallel = 4

// Main is the TestMain of a package: it builds portald, runs the tests and exits.
func Main(m *testing.M) {
	topology.Enter()
	flag.Parse()
	os.Exit(run(m))
}

// MainOnWindows is Main for tests of portald.exe.
func MainOnWindows(m *testing.M) {
	OnWindows = true
	Main(m)
}

func run(m *testing.M) int {
	if topology.Check() != nil { // each test reports it
		return m.Run()
	}
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
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
	if OnWindows {
		err = prepareWindows(dir)
	} else {
		Portald = filepath.Join(dir, "portald")
		err = build(Portald)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build compiles portald, with the race detector if the test was built with it.
func build(path string) error {
	args := []string{"build", "-buildvcs=false", "-o", path}
	if raceDetector() {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, portaldPackage)...).CombinedOutput()
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
