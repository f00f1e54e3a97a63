package bed

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// Patience is how long a test waits for what has to come. No test asserts it.
var Patience = VMTimeout(time.Minute)

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

// build compiles portald. All packages of a checkout share what is linked: each has a copy, which stays as it is when
// the run of another package builds it again.
func build(path string) error {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("build portald: find its module: %w", err)
	}
	shared := filepath.Join(strings.TrimSpace(string(module)), "bin", "under-test")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return fmt.Errorf("build portald: %w", err)
	}
	lock, err := os.Create(filepath.Join(shared, "lock"))
	if err != nil {
		return fmt.Errorf("build portald: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("build portald: lock %s: %w", lock.Name(), err)
	}
	linked, cgo := filepath.Join(shared, "portald"), "CGO_ENABLED=0" // as make build, whose objects are in the cache
	flags := []string{"-trimpath"}
	if raceDetector() {
		linked, cgo, flags = linked+"-race", "CGO_ENABLED=1", []string{"-race"}
	}
	args := slices.Concat([]string{"build", "-buildvcs=false", "-o", linked}, flags, []string{portaldPackage})
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build portald: %w\n%s", err, out)
	}
	binary, err := os.ReadFile(linked)
	if err != nil {
		return fmt.Errorf("build portald: %w", err)
	}
	return os.WriteFile(path, binary, 0o755)
}

// raceDetector tells whether portald is to have the race detector: where the tests have it, or .ci/test says so.
func raceDetector() bool {
	if os.Getenv("RACE_PORTALD") == "1" {
		return true
	}
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
