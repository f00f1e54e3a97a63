package integration

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// fussy has a daemon's iptables-restore refuse what matches a pattern, and everything while a file "fail" is there.
func (b *bed) fussy(pattern string) (wrapper []string, fail string) {
	b.Helper()
	real := b.on(b.node, "sh", "-c", "printf %s $(command -v iptables-restore)")
	dir := filepath.Join(b.dir, "bin")
	fail = filepath.Join(dir, "fail")
	b.put(filepath.Join(dir, "iptables-restore"), fmt.Sprintf(`#!/bin/sh
script=$(mktemp %[1]s/script.XXXXXX); cat > $script
if [ -e %[2]s ] || grep -q '%[3]s' $script; then echo "iptables-restore: line 3 failed" >&2; rm $script; exit 1; fi
%[4]s "$@" < $script; code=$?
rm $script; exit $code
`, dir, fail, pattern, real))
	b.must(os.Chmod(filepath.Join(dir, "iptables-restore"), 0o700))
	return []string{"env", "PATH=" + dir + ":" + os.Getenv("PATH")}, fail
}

func (d *daemon) healthy(path string, code int) {
	d.Helper()
	d.eventually(fmt.Sprintf("%s to say %d", path, code), func() bool {
		got, _, err := d.get("127.0.0.1:10256", path)
		return err == nil && got == code
	})
}

// isRefused asks a Service that is set aside.
func (b *bed) isRefused(ip string) {
	b.Helper()
	if a, err := who(b.client, "tcp", at(ip, 80)); !errors.Is(err, syscall.ECONNREFUSED) {
		b.Errorf("%s: %v, %v, want a refusal", ip, a, err)
	}
}

// servedAgain waits until nothing is set aside any more, which may take twice as long as the last try is ago.
func (b *bed) servedAgain(d *daemon, ip, pod string) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); d.metric(setAside) > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	b.becomes(ip, pod)
}

const setAside = "portald_service_ports_set_aside"

// A Service that the host refuses is refused alone: from the first sync on the daemon is ready, and what comes and goes
// beside it is one small change each. When the host takes it, it is served by itself.
func TestOneServiceIsRefused(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1)
	const evil, good, later = "10.96.1.1", "10.96.1.2", "10.96.1.3"
	wrapper, _ := b.fussy("shop/evil.*REDIRECT")
	b.write(manifest, b.simple("evil", evil, 0).String()+b.simple("good", good, 0).String())
	d := b.launch(wrapper, "--manifests", filepath.Join(b.dir, manifest))
	d.errors = true
	d.waitReady()
	b.becomes(good, "pod0")
	b.isRefused(evil)
	if d.metric(setAside) != 1 || d.metric(`portald_service_ports_refused_total{reason="rules"}`) != 1 {
		t.Errorf("%s %v, and counted as %v", setAside, d.metric(setAside), d.metric(`portald_service_ports_refused_total{reason="rules"}`))
	}
	full := d.metric(`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}`)
	d.apply(b.simple("evil", evil, 0).String() + b.simple("good", good, 1).String() + b.simple("later", later, 0).String())
	b.becomes(good, "pod1")
	b.becomes(later, "pod0")
	d.healthy("/healthz", http.StatusOK)
	if now := d.metric(`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}`); now != full {
		t.Errorf("everything was written %v times more", now-full)
	}
	b.put(filepath.Join(b.dir, "bin", "iptables-restore"), fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n",
		b.on(b.node, "sh", "-c", "printf %s $(command -v iptables-restore)")))
	b.servedAgain(d, evil, "pod0")
	if n := d.metric(setAside); n != 0 {
		t.Errorf("%s %v, and everything is served", setAside, n)
	}
}

// Proxy ports that are used up are the trouble of who comes last. It has the next one that is free.
func TestNoProxyPortIsLeft(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1)
	const first, second = "10.96.1.1", "10.96.1.2"
	one, two := b.simple("a", first, 0), b.simple("b", second, 1)
	d := b.start(one.String()+two.String(), "--proxy-port-range=20000-20000")
	d.errors = true
	b.becomes(first, "pod0")
	b.isRefused(second)
	if d.metric(setAside) != 1 {
		t.Errorf("%s %v", setAside, d.metric(setAside))
	}
	d.apply(two)
	b.servedAgain(d, second, "pod1")
}

// Rules that are gone and cannot be written again are an illness, whoever found that out, and no reason for a restart.
func TestHealthWhileHostRefuses(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	wrapper, fail := b.fussy("nothing at all")
	b.write(manifest, b.cart(0))
	d := b.launch(wrapper, "--manifests", filepath.Join(b.dir, manifest), "--iptables-sync-period=1s")
	d.errors = true
	d.waitReady()
	b.put(fail, "")
	b.on(b.node, "iptables", "-t", "nat", "-F")
	d.healthy("/healthz", http.StatusServiceUnavailable)
	d.healthy("/livez", http.StatusOK)
	if n := d.metric(setAside); n != 0 {
		t.Errorf("%v Services have the blame", n)
	}
	b.must(os.Remove(fail))
	d.healthy("/healthz", http.StatusOK)
	b.becomes(ip4, "pod0")
}
