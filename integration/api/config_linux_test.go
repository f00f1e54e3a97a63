package api

import (
	"net/netip"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// kubeadmFile returns kubeadm's configuration of kube-proxy, with another kubeconfig path, followed by a document of
// portald's own kind.
func kubeadmFile(b *apibed.Bed, own string) string {
	b.Helper()
	text, err := os.ReadFile("../../cmd/portald/config/testdata/kubeadm-1.36.yaml")
	if err != nil {
		b.Fatal(err)
	}
	const where = "/var/lib/kube-proxy/kubeconfig.conf"
	if !strings.Contains(string(text), where) {
		b.Fatalf("kubeadm's file does not contain %s", where)
	}
	return strings.ReplaceAll(string(text), where, b.API.Kubeconfig(cluster.Proxy)) +
		"---\napiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\n" + own
}

// configFile checks kube-proxy's configuration file, writes it out, starts portald with it, and changes it at run time.
func configFile(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[5]
	records := "connectionLog: {path: " + s.RecordFile() + ", format: json}\n"
	text := kubeadmFile(b, records)
	path := s.WriteManifest("config.yaml", text)

	if said := s.On(s.Node, bed.Portald, "config", "check", path); !strings.Contains(said, "clusterCIDR") ||
		!strings.Contains(said, "connectionLog.path") {
		b.Errorf("portald config check prints\n%s", said)
	}
	if said, err := s.Try(s.Node, bed.Portald, "config", "check",
		s.WriteManifest("bad.yaml", text+"retries: 77\nretry: 1\n")); err == nil ||
		!strings.Contains(said, "retries: 77") || !strings.Contains(said, "retry: there is no such field") {
		b.Errorf("portald config check of a bad file: %v\n%s", err, said)
	}

	const established = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established"
	s.On(s.Node, "sh", "-c", "echo 1000 > "+established)
	s.On(s.Node, bed.Portald, "--config", path, "--init-only")
	if got := s.On(s.Node, "cat", established); got != "86400\n" {
		b.Errorf("after --init-only %s is %q", established, got)
	}
	if rules := s.Rules(); strings.Contains(rules, "PORTALD") {
		b.Errorf("--init-only left rules:\n%s", rules)
	}

	whole := s.Dir + "/whole.yaml"
	s.On(s.Node, bed.Portald, "--config", path, "--write-config-to", whole)
	d := s.Exec(bed.Portald, "--config", whole, "--hostname-override=f")
	d.WaitReady()
	svc := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0", "f0")
	b.AnswersBoth(s.Client, apibed.On80(svc.Spec.ClusterIP), "a0", "f0")
	if code := d.Stop(); code != 0 {
		b.Errorf("portald ended with code %d", code)
	}
	d = s.Exec(bed.Portald, "--config", path, "--hostname-override=f")
	d.WaitReady()
	b.AnswersBoth(s.Client, apibed.On80(svc.Spec.ClusterIP), "a0", "f0")
	configChanges(b, n, d, text)
}

// configChanges changes the configuration file of a running portald.
func configChanges(b *apibed.Bed, n *cluster.Namespace, d *bed.Daemon, text string) {
	silent := n.Service("silent", corev1.ServiceSpec{Ports: apibed.Web()})
	n.Pod("silent", "silent", "f", &topology.Host{IPv4: netip.MustParseAddr("10.244.5.201")})
	dials := func() (n int, took float64) {
		a, _ := bed.AskWithin(bed.AnswerTimeout, d.Client, "tcp", apibed.On80(silent.Spec.ClusterIP))
		if !a.Client.IsValid() {
			return 0, 0
		}
		for _, dial := range d.RecordOf(a).Attempts {
			n, took = n+1, took+dial.MS
		}
		return n, took
	}
	b.Eventually("the four dials of the default", func() bool { n, _ := dials(); return n == 4 })
	if strings.Contains(d.Log.String(), "level=debug") {
		b.Error("the log has debug lines before the log level was changed")
	}
	d.WriteManifest("config.yaml", text+"connectTimeouts: [600ms]\nlog: {level: debug}\nudpMaxSessions: 9000\n")
	b.Eventually("the log to report the changes", func() bool {
		said := d.Log.String()
		return strings.Contains(said, "connectTimeouts changed from") && strings.Contains(said, "log.level changed") &&
			strings.Contains(said, "udpMaxSessions changed from 4096 to 9000: takes effect at the next start")
	})
	if n, took := dials(); n != 1 || took < 599 {
		b.Errorf("after the change: %d dials in %v ms, want 1 of 600", n, took)
	}
	n.SetReady("silent", false)
	b.Eventually("a more verbose log", func() bool { return strings.Contains(d.Log.String(), "level=debug") })

	d.ExpectErrors = true
	d.WriteManifest("config.yaml", text+"connectTimeouts: [1s, -1s]\nsmile: yes\n")
	b.Eventually("the log to report both mistakes", func() bool {
		said := d.Log.String()
		return strings.Contains(said, "connectTimeouts") && strings.Contains(said, "-1s") && strings.Contains(said, "smile")
	})
	n.SetReady("silent", true)
	b.Eventually("one dial, as before", func() bool { n, took := dials(); return n == 1 && took >= 599 })
}
