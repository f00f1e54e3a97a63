package handover

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// With the rights that deploy/ gives: the keeper has no capability at all. Sockets and memory come as descriptors, and
// it can reset the connections that nobody comes for.
func TestCrashAsDeployed(t *testing.T) {
	topology.Require(t, "setpriv")
	b := bed.New(t)
	b.ServePods(0)
	socket := filepath.Join(b.ShortDir(), "keep.sock")
	rights := []string{"setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"}
	keeper := b.Exec(append(rights, b.Line("keep", "--socket", socket, "--for", "10s")...)...)
	b.Eventually("the keeper", func() bool { return strings.Contains(keeper.Log.String(), "keeps at") })

	path := b.WriteManifest(bed.Manifest, b.Cart(0))
	rights = []string{"setpriv", "--no-new-privs", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--"}
	first := b.Launch(rights, "--manifests", path, "--keep-socket="+socket)
	first.WaitReady()
	c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
	awaitKept(first, 1)
	second := kill(first)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection: %v\n%s", err, second.Log.String())
	}
	second.WaitReady()
	awaitKept(second, 1)
	second.Signal(syscall.SIGKILL)
	<-second.Ended
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := r.ReadByte(); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection that nobody has come for: %v, want a reset\n%s", err, keeper.Log.String())
	}
}
