package ipvs

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Elements are counted in the sets that are named, and in no others.
func TestCountElements(t *testing.T) {
	if _, err := exec.LookPath("ipset"); err != nil {
		netnstest.Missing(t, "needs ipset (Debian package ipset)")
	}
	netnstest.Enter(t)
	ipset := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ipset", args...).CombinedOutput(); err != nil {
			t.Fatalf("ipset %q: %v\n%s", args, err, out)
		}
	}
	want := func(n int, sets ...string) {
		t.Helper()
		names := map[string]bool{}
		for _, s := range sets {
			names[s] = true
		}
		if got, err := countElements(names); err != nil || got != n {
			t.Errorf("%v have %d elements, %v, want %d", sets, got, err, n)
		}
	}
	want(0, "one")
	for _, name := range []string{"one", "two", "others"} {
		ipset("create", name, "hash:ip")
		ipset("add", name, "192.0.2.1")
	}
	ipset("add", "two", "192.0.2.2")
	want(3, "one", "two")
	ipset("flush", "two")
	want(1, "one", "two", "missing")
}

// Virtual servers that others remove show, as does the device; what the Writer does itself does not.
func TestOthersDisturb(t *testing.T) {
	n := newNode(t, nil)
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first)
	for _, command := range [][]string{{"ipvsadm", "-C"}, {"ip", "link", "delete", n.ours.names.device}} {
		n.Write([]portal.Portal{p})
		n.Node.Must(func() error {
			if n.ours.Disturbed() {
				t.Errorf("before %q: disturbed", command)
			}
			if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %w\n%s", command, err, out)
			}
			if !n.ours.Disturbed() {
				t.Errorf("%q does not show", command)
			}
			if err := n.ours.Audit(t.Context()); err == nil {
				t.Errorf("the audit does not find %q", command)
			}
			return nil
		})
	}
	n.Write([]portal.Portal{p})
	n.Node.Must(func() error { return n.ours.Audit(t.Context()) })
}
