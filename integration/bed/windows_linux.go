package bed

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/integration/wine"
	"github.com/portald/portald/integration/winnode"
)

// OnWindows has the nodes of all beds run portald.exe, by Wine: ON_WINDOWS=1 does that for tests that do not ask for a
// system.
var OnWindows = os.Getenv("ON_WINDOWS") == "1"

// Device is the interface of a node that portald.exe adds addresses to.
const Device = winnode.Device

// forWindows is made by prepareWindows for all beds.
var forWindows winnode.Programs

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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	forWindows, err = winnode.Build(ctx, dir)
	Portald = forWindows.Portald
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
	var err error
	b.Windows, err = forWindows.Install(b.Context(), b.Node, filepath.Join(b.TempDir(), "prefix"))
	b.Must(err)
	b.Cleanup(func() { b.Must(b.Windows.Close()) })
}
