package bed

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/integration/wine"
	"github.com/portald/portald/portal/netsh/netshsim"
)

// OnWindows has the nodes of all beds run portald.exe, by Wine: ON_WINDOWS=1 does that for tests that do not ask for a
// system.
var OnWindows = os.Getenv("ON_WINDOWS") == "1"

// Device is the interface of a node that portald.exe adds addresses to.
const Device = "hns0"

// Windows is the system of a node, as far as Wine has it, with a netsh.exe whose simulator changes that node.
type Windows struct {
	Netsh  *netshsim.Netsh
	Prefix wine.Prefix
}

// forWindows is what prepareWindows makes for all beds.
var forWindows struct {
	netsh        string
	installation wine.Installation
}

// NeedsLinux skips a test where portald runs on Windows.
func NeedsLinux(t *testing.T, why string) {
	t.Helper()
	if OnWindows {
		t.Skip("on Windows: " + why)
	}
}

// prepareWindows builds the programs, and has Wine installed. Where there is no Wine, each test reports that.
func prepareWindows(dir string) (err error) {
	if wine.Check() != nil {
		return nil
	}
	Portald, forWindows.netsh = filepath.Join(dir, "portald.exe"), filepath.Join(dir, "netsh.exe")
	for path, pkg := range map[string]string{
		Portald: portaldPackage, forWindows.netsh: "github.com/portald/portald/integration/bed/netsh",
	} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, pkg)
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s for Windows: %w\n%s", pkg, err, out)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	forWindows.installation, err = wine.Open(ctx)
	return err
}

// Install installs the system on the node that its tests are for.
func (b *Bed) Install() {
	b.Helper()
	if !OnWindows {
		return
	}
	if err := wine.Check(); err != nil {
		topology.Lack(b.T, "%v", err)
	}
	b.On(b.Node, "ip", "link", "add", Device, "type", "veth", "peer", "name", Device+"-peer")
	b.On(b.Node, "ip", "link", "set", Device, "up")
	b.On(b.Node, "ip", "link", "set", Device+"-peer", "up")
	w := &Windows{Netsh: &netshsim.Netsh{Host: kernel{b.Node}}}
	var err error
	w.Prefix, err = forWindows.installation.Copy(b.Context(), filepath.Join(b.TempDir(), "prefix"))
	b.Must(err)
	b.Cleanup(func() { b.Must(w.Prefix.Close(context.Background())) })
	w.Prefix, err = w.Prefix.Replace("netsh.exe", forWindows.netsh)
	b.Must(err)
	w.simulate(b)
	b.Must(b.Node.Do(func() error { return w.Prefix.Warm(b.Context()) }))
	w.hold(b)
	b.Windows = w
}

// hold keeps the system up until the end of the test.
func (w *Windows) hold(b *Bed) {
	b.Helper()
	line := w.line(b, forWindows.netsh, []string{"hold"})
	cmd := b.Node.Command(context.Background(), line[0], line[1:]...)
	in, err := cmd.StdinPipe()
	b.Must(err)
	out, err := cmd.StdoutPipe()
	b.Must(err)
	b.Must(cmd.Start())
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if up, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(up) != "up" {
		b.Fatalf("Windows is not up: %q, %v", up, err)
	}
}

// simulate serves netsh on the node.
func (w *Windows) simulate(b *Bed) {
	b.Helper()
	l, err := b.Node.Listen("tcp", "127.0.0.1:0")
	b.Must(err)
	b.WriteFile(filepath.Join(w.Prefix.System32(), "netsh.simulator"), l.Addr())
	go w.Netsh.Serve(l)
	b.Cleanup(func() { l.Close() })
}

// line is the command line of a program for Windows.
func (w *Windows) line(b *Bed, exe string, args []string) []string {
	b.Helper()
	ours := os.Environ()
	out := append([]string{"env"}, slices.DeleteFunc(w.Prefix.Environ(), func(pair string) bool {
		return slices.Contains(ours, pair) // which commands have anyway
	})...)
	out = append(out, "INTERFACE_TO_ADD_SERVICE_IP="+Device)
	program, err := w.Prefix.Line(exe, args...)
	b.Must(err)
	return append(out, program...)
}
