package ipvs

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// run runs a command on the node and returns what it printed.
func (n *node) run(name string, args ...string) string {
	n.Helper()
	var out []byte
	n.Node.Must(func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err = exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil {
			n.Logf("%s %s: %s", name, strings.Join(args, " "), out)
		}
		return err
	})
	return string(out)
}

// The settings that the Writer makes beside portals, and those that it leaves alone, as the kernel's own tools show
// them.
func TestSettings(t *testing.T) {
	n := newNode(t, func(o *Options) {
		o.Scheduler, o.StrictARP, o.ExcludeCIDRs = "lc", true, prefixes("10.96.9.0/24")
		o.TCPTimeout, o.TCPFinTimeout, o.UDPTimeout = 700*time.Second, 70*time.Second, 77*time.Second
	})
	n.run("ipvsadm", "-A", "-t", "10.96.9.1:80", "-s", "rr")
	portals := []portal.Portal{spread(service.ClusterIP, "10.96.0.1:80", inet.TCP, "10.244.0.2:8080")}
	portals[0].Target.(portal.Spread).Pool.Affinity = 3 * time.Hour
	for range 2 { // a second Replace finds what the first wrote
		n.Write(portals)
	}
	table := n.run("ipvsadm", "-S", "-n")
	for _, want := range []string{"-A -t 10.96.0.1:80 -s lc -p 10800", "-a -t 10.96.0.1:80 -r 10.244.0.2:8080 -m -w 1",
		"-A -t 10.96.9.1:80 -s rr"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if got := n.run("ipvsadm", "-L", "--timeout"); !strings.Contains(got, "700 70 77") {
		t.Errorf("timeouts: %s", got)
	}
	n.Node.Must(func() error {
		for name, want := range map[string]string{
			"net/ipv4/conf/all/arp_ignore": "1", "net/ipv4/conf/all/arp_announce": "2", "net/ipv4/vs/conntrack": "1",
			"net/ipv4/vs/expire_nodest_conn": "1", "net/ipv4/vs/expire_quiescent_template": "1",
			"net/ipv4/vs/conn_reuse_mode": "1", // the kernel's
		} {
			got, err := os.ReadFile("/proc/sys/" + name)
			if err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s is %q, %v, want %s", name, got, err, want)
			}
		}
		return nil
	})
	n.Node.Must(func() error { return n.ours.Cleanup(context.Background()) })
	if left := n.run("ipvsadm", "-S", "-n"); strings.TrimSpace(left) != "-A -t 10.96.9.1:80 -s rr" {
		t.Errorf("cleanup leaves\n%s", left)
	}
}
