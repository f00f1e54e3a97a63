package windows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// service runs `portald service` on the node.
func service(b *bed.Bed, args ...string) (string, error) {
	line := b.Line(append([]string{"service"}, args...)...)
	return b.Try(b.Node, line[0], line[1:]...)
}

// portald is installed as a service, started, and stopped while a connection is open, which ends by itself.
func TestService(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	run := func(args ...string) string {
		t.Helper()
		out, err := service(b, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out, err := service(b, "status"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("status before: %v\n%s", err, out)
	}
	manifests := b.WriteManifest(bed.Manifest, b.Cart(0))
	log := filepath.Join(b.Windows.Prefix.DriveC(), "ProgramData", "portald", "portald.log")
	t.Cleanup(func() {
		if text, err := os.ReadFile(log); t.Failed() {
			t.Logf("the service's log: %s, %v", text, err)
		}
	})
	run("install", "--", "--interface-name="+bed.Device, "--manifests=Z:"+manifests, "--drain-timeout=1m")
	run("start")
	if out := run("status"); !strings.Contains(out, "Running") || !strings.Contains(out, manifests) {
		t.Errorf("status prints\n%s", out)
	}
	b.Eventually("the Service to be served", b.Served)
	c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
	stopped := make(chan error, 1)
	go func() {
		_, err := service(b, "stop")
		stopped <- err
	}()
	b.Eventually("new clients to be refused", func() bool {
		_, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		return err != nil
	})
	time.Sleep(time.Second)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection while the service stops: %v", err)
	}
	c.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	wantAddresses(b)
	run("uninstall")
	if out, err := service(b, "status"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("status after: %v\n%s", err, out)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "connections have 1m0s to end") {
		t.Errorf("the log has no drain: %v", err)
	}
}

// A service that cannot serve says why when it is started.
func TestServiceThatCannotStart(t *testing.T) {
	b := bed.New(t)
	manifests := b.WriteManifest(bed.Manifest, b.Cart(0))
	if _, err := service(b, "install", "--", "--interface-name=nowhere", "--manifests=Z:"+manifests); err != nil {
		t.Fatal(err)
	}
	if out, err := service(b, "start"); err == nil || !strings.Contains(err.Error(), "interfaceName") ||
		!strings.Contains(err.Error(), bed.Device) {
		t.Errorf("start: %v\n%s", err, out)
	}
	if _, err := service(b, "uninstall"); err != nil {
		t.Error(err)
	}
}
