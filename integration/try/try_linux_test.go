package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/integration/topology"
)

// asTry is the environment variable that makes the test binary run as the program, with this portald.
const asTry = "TRY_TEST_PORTALD"

func TestMain(m *testing.M) {
	if portald := os.Getenv(asTry); portald != "" {
		os.Args = []string{"try", "-portald", portald, "-manifest", "../../deploy/examples/shop.yaml"}
		main()
		os.Exit(0)
	}
	topology.Enter()
	os.Exit(m.Run())
}

// runTry runs the program in namespaces nested in those of the test.
func runTry(t *testing.T, portald string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PORTALD_TOPOLOGY=") })
	cmd.Env = append(cmd.Env, asTry+"="+portald)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The example in deploy works, and a user sees a record, a retry and what the commands say, in this order.
func TestTry(t *testing.T) {
	topology.Require(t, "curl", "go", "iptables")
	portald := filepath.Join(t.TempDir(), "portald")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", portald,
		"github.com/portald/portald/cmd/portald")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build, whose objects are in the cache
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build portald: %v\n%s", err, out)
	}
	text, err := runTry(t, portald)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	rest := text
	for _, want := range []string{
		"node$ " + portald + " --manifests", "Ready: all service ports are served",
		"client0$ curl", "hello from cart-", "(ClusterIP)", "shop/cart-", "  ok  ",
		"node$ " + portald + " conns", "ENDPOINT", "open", "  ok  ",
		"stops", "hello from cart-", "  ok  ", "[tried 10.244.0.", "connection refused",
		"node$ " + portald + " explain", "✓ Clients of shop/cart:http get 2 of its 2 endpoints", "host is as it was",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q where it should be:\n%s", want, text)
		}
		rest = after
	}
	if strings.Contains(text, "level=warning") {
		t.Errorf("portald warns about the example:\n%s", text)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(portald)) {
			t.Errorf("portald still runs: %s", file)
		}
	}
}

// A portald that ends at once is an error, not a wait.
func TestTryWithoutPortald(t *testing.T) {
	topology.Require(t, "curl", "iptables")
	if text, err := runTry(t, "/bin/false"); err == nil || !strings.Contains(text, "portald has ended") {
		t.Errorf("%v\n%s", err, text)
	}
}
