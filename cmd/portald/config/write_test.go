package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// The written configuration is the one that runs: read again, it is the same without a warning, and is written the
// same.
func TestWrittenConfigurationIsTheSame(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	tests := map[string]string{
		"defaults": "",
		"zeros": "--iptables-min-sync-period=0 --healthz-bind-address= --metrics-port=0 --drain-timeout=0 " +
			"--conntrack-max-per-core=0 --retries=0 --oom-score-adj=0 --iptables-localhost-nodeports=false " +
			"--admin-socket=",
		"portald's": "--manifests=a --manifests=b,c --connection-log=- --connect-timeouts=1s --retries=2 " +
			"--idle-timeout=3s --max-connections=4 --client-address=proxy-v2 --external-ip-cidrs=203.0.113.0/24 " +
			"--connection-rate-per-client=5 --node-ip=2001:db8::1 --log-level=warn --log-format=json " +
			"--proxy-port-range=100+5 --service-proxy-name=p --iptables-variant=nft",
		"kube-proxy's": "--kubeconfig=k --master=m --bind-address=2001:db8::1 " +
			"--nodeport-addresses=primary,10.0.0.0/8 --cluster-cidr=10.0.0.0/8 --detect-local-mode=NodeCIDR " +
			"--kube-api-qps=-1 -v=9 --logging-format=json --profiling",
		"nftables": "--proxy-mode=nftables --iptables-sync-period=7s --iptables-min-sync-period=3s " +
			"--service-cidrs=10.96.0.0/12",
		"ipvs": "--proxy-mode=ipvs --ipvs-scheduler=sh --ipvs-exclude-cidrs=10.0.0.0/8 --ipvs-strict-arp " +
			"--ipvs-tcp-timeout=1s --ipvs-fallback=iptables --masquerade-all --iptables-masquerade-bit=3",
		"another writer":   "--writer=nftables",
		"without effect":   "--config=testdata/newer.yaml",
		"userspace of old": "--config=testdata/userspace.yaml --udp-max-sessions=5",
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			first, _, err := complete(t, append(strings.Fields(args), "--hostname-override=node-a")...)
			check(t, err)
			path := filepath.Join(t.TempDir(), "written.yaml")
			check(t, first.Write(path))
			again, _, err := complete(t, "--config", path)
			check(t, err)
			if strings.Contains(args, "min-sync-period=0") { // a zero of the file stands for the default
				if again.MinSync <= 0 || again.MinSync.Microseconds() > 0 {
					t.Errorf("between two rounds: %v", again.MinSync)
				}
				again.MinSync = first.MinSync
			}
			if d := diff(first, again); d != "" {
				t.Errorf("(-first +again)\n%s", d)
			}
		})
	}
}

// As kube-proxy shows its own at /configz.
func TestDocuments(t *testing.T) {
	c, _, err := complete(t, "--manifests=x", "--cluster-cidr=10.0.0.0/8", "--healthz-bind-address=")
	check(t, err)
	text, err := json.Marshal(c.Documents())
	check(t, err)
	for _, want := range []string{`"kubeproxy.config.k8s.io":{`, `"clusterCIDR":"10.0.0.0/8"`,
		`"healthzBindAddress":"0.0.0.0:0"`, `"portald.io":{`, `"manifests":["x"]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
