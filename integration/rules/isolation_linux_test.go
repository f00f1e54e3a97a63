package rules

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// restores are the names by which the daemon may call iptables-restore.
var restores = []string{"iptables-restore", "iptables-nft-restore"}

// fakeRestore returns a command wrapper that gives the daemon a fake iptables-restore. The fake fails if its input
// matches a pattern, and always while the file "fail" exists.
func fakeRestore(b *bed.Bed, pattern string) (wrapper []string, fail string) {
	b.Helper()
	dir := filepath.Join(b.Dir, "bin")
	fail = filepath.Join(dir, "fail")
	for _, name := range restores {
		b.WriteFile(filepath.Join(dir, name), fmt.Sprintf(`#!/bin/sh
script=$(mktemp %[1]s/script.XXXXXX); cat > $script
if [ -e %[2]s ] || grep -q '%[3]s' $script; then echo "iptables-restore: line 3 failed" >&2; rm $script; exit 1; fi
%[4]s "$@" < $script; code=$?
rm $script; exit $code
`, dir, fail, pattern, realCommand(b, name)))
		b.Must(os.Chmod(filepath.Join(dir, name), 0o700))
	}
	return []string{"env", "PATH=" + dir + ":" + os.Getenv("PATH")}, fail
}

// realCommand is the path of a command of this host.
func realCommand(b *bed.Bed, name string) string {
	b.Helper()
	return b.On(b.Node, "sh", "-c", "printf %s $(command -v "+name+")")
}

func healthy(d *bed.Daemon, path string, code int) {
	d.Helper()
	d.Eventually(fmt.Sprintf("%s to return %d", path, code), func() bool {
		got, _, err := d.Get("127.0.0.1:10256", path)
		return err == nil && got == code
	})
}

// isRefused checks that a Service that was set aside refuses connections.
func isRefused(b *bed.Bed, ip string) {
	b.Helper()
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(ip, 80)); !errors.Is(err, syscall.ECONNREFUSED) {
		b.Errorf("%s: %v, %v, want a refusal", ip, a, err)
	}
}

// servedAgain waits until no service port is set aside. The interval between attempts doubles, hence the long limit.
func servedAgain(b *bed.Bed, d *bed.Daemon, ip, pod string) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); d.Metric(quarantinedMetric) > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	b.ServedBy(ip, pod)
}

const quarantinedMetric = "portald_service_ports_set_aside"

// A Service whose rules the host rejects affects no other Service: the daemon is ready after the first sync, and
// changes of others stay incremental. Once the host accepts the rules, the Service is served without a restart.
func TestOneServiceIsRefused(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	const evil, good, later = "10.96.1.1", "10.96.1.2", "10.96.1.3"
	wrapper, _ := fakeRestore(b, "shop/evil.*REDIRECT")
	b.WriteManifest(bed.Manifest, b.Simple("evil", evil, 0).String()+b.Simple("good", good, 0).String())
	d := b.Launch(wrapper, "--manifests", filepath.Join(b.Dir, bed.Manifest))
	d.ExpectErrors = true
	d.WaitReady()
	b.ServedBy(good, "pod0")
	isRefused(b, evil)
	if d.Metric(quarantinedMetric) != 1 || d.Metric(`portald_service_ports_refused_total{reason="rules"}`) != 1 {
		t.Errorf("%s is %v and the refusals are %v, want 1 and 1", quarantinedMetric, d.Metric(quarantinedMetric),
			d.Metric(`portald_service_ports_refused_total{reason="rules"}`))
	}
	full := d.Metric(`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}`)
	d.Apply(b.Simple("evil", evil, 0).String() + b.Simple("good", good, 1).String() + b.Simple("later", later, 0).String())
	b.ServedBy(good, "pod1")
	b.ServedBy(later, "pod0")
	healthy(d, "/healthz", http.StatusOK)
	if now := d.Metric(`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}`); now != full {
		t.Errorf("%v more full syncs, want none", now-full)
	}
	for _, name := range restores {
		b.WriteFile(filepath.Join(b.Dir, "bin", name), fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", realCommand(b, name)))
	}
	servedAgain(b, d, evil, "pod0")
	if n := d.Metric(quarantinedMetric); n != 0 {
		t.Errorf("%s is %v although every Service is served", quarantinedMetric, n)
	}
}

// When the proxy ports are exhausted, the newest Service is set aside. It gets the next port that becomes free.
func TestNoProxyPortIsLeft(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	const first, second = "10.96.1.1", "10.96.1.2"
	one, two := b.Simple("a", first, 0), b.Simple("b", second, 1)
	d := b.Start(one.String()+two.String(), "--proxy-port-range=20000-20000")
	d.ExpectErrors = true
	b.ServedBy(first, "pod0")
	isRefused(b, second)
	if d.Metric(quarantinedMetric) != 1 {
		t.Errorf("%s is %v, want 1", quarantinedMetric, d.Metric(quarantinedMetric))
	}
	d.Apply(two)
	servedAgain(b, d, second, "pod1")
}

// While deleted rules cannot be written again, /healthz fails, and /livez succeeds: a restart would not help.
func TestHealthWhileHostRefuses(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	wrapper, fail := fakeRestore(b, "nothing at all")
	b.WriteManifest(bed.Manifest, b.Cart(0))
	d := b.Launch(wrapper, "--manifests", filepath.Join(b.Dir, bed.Manifest), "--iptables-sync-period=1s")
	d.ExpectErrors = true
	d.WaitReady()
	b.WriteFile(fail, "")
	b.On(b.Node, "iptables", "-t", "nat", "-F")
	healthy(d, "/healthz", http.StatusServiceUnavailable)
	healthy(d, "/livez", http.StatusOK)
	if n := d.Metric(quarantinedMetric); n != 0 {
		t.Errorf("%v service ports are set aside, want none", n)
	}
	b.Must(os.Remove(fail))
	healthy(d, "/healthz", http.StatusOK)
	b.ServedBy(bed.IP4, "pod0")
}
