package daemon

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// portald serves health and metrics at the addresses and paths of kube-proxy.
func TestHealthAndMetrics(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	for _, host := range []string{"127.0.0.1", b.Node.IPv4.String()} {
		for path, want := range map[string]string{"/healthz": `"nodeEligible":true`, "/livez": `"lastUpdated":`} {
			if code, body, err := d.Get(host+":10256", path); code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s at %s returns %d %s, %v", path, host, code, body, err)
			}
		}
	}
	if _, body, err := d.Get("127.0.0.1:10249", "/proxyMode"); body != "userspace" {
		t.Errorf("/proxyMode returns %q, %v", body, err)
	}
	if code, _, err := d.Get(b.Node.IPv4.String()+":10249", "/metrics"); err == nil {
		t.Errorf("/metrics is reachable from other hosts: %d", code)
	}
	for range 3 {
		if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
			t.Fatal(err)
		}
	}
	const cart = `service="shop/cart:http"`
	for series, want := range map[string]float64{
		`portald_connections_total{outcome="ok",portal="ClusterIP",protocol="tcp",` + cart + `}`: 3,
		`portald_connection_bytes_total{direction="from_endpoint",protocol="tcp",` + cart + `}`:  15,
		`portald_dial_attempts_total{protocol="tcp",result="ok",` + cart + `}`:                   3,
		`portald_connect_seconds_count{protocol="tcp"}`:                                          3,
		`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}`:               1,
		`kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"}`:           0,
		`portald_connection_records_dropped_total`:                                               0,
		`portald_connections_active{protocol="tcp",` + cart + `}`:                                0,
	} {
		if !bed.Within(bed.Patience, func() bool { return d.Metric(series) == want }) {
			t.Errorf("%s is %v, want %v", series, d.Metric(series), want)
		}
	}
	_, all, err := d.Get("127.0.0.1:10249", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"kubeproxy_sync_proxy_rules_last_timestamp_seconds", "kubeproxy_sync_proxy_rules_duration_seconds_bucket",
		"kubeproxy_proxy_healthz_total",
		"kubeproxy_sync_proxy_rules_service_changes_total", "process_open_fds", "go_goroutines",
		`kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"}`,
	} {
		if !strings.Contains(all, name) {
			t.Errorf("no metric %s", name)
		}
	}
	d.Apply(b.Simple("other", "10.96.7.7", 0))
	if _, all, _ = d.Get("127.0.0.1:10249", "/metrics"); strings.Contains(all, cart) {
		t.Error("metrics of a removed Service are still served")
	}
}

// The health address is in use: portald logs it and serves Services, or exits with --bind-address-hard-fail.
func TestAddressInUse(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	l, err := b.Node.Listen("tcp", "0.0.0.0:10256")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b.WriteManifest(bed.Manifest, b.Cart(0))
	d := b.Launch(nil, "--manifests", filepath.Join(b.Dir, bed.Manifest))
	b.Eventually("portald to serve", b.Served)
	if !strings.Contains(d.Log.String(), "Cannot bind health server") {
		t.Error("the log does not report the address in use")
	}
	hard := b.Launch(nil, "--manifests", filepath.Join(b.Dir, bed.Manifest), "--bind-address-hard-fail")
	if code := hard.Exit(); code != 1 {
		t.Errorf("with --bind-address-hard-fail: code %d, want 1", code)
	}
}

func TestHostname(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Start(b.Cart(0), "--hostname-override=  Other.Example ")
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil || a.Pod != "pod0" {
		t.Errorf("%q, %v", a.Pod, err)
	}
	if out, err := b.Try(b.Node, bed.Portald, "--manifests=x", "--hostname-override= "); err == nil ||
		!strings.Contains(err.Error(), "--hostname-override") {
		t.Errorf("a blank name: %s, %v", out, err)
	}
}
