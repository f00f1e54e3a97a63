package config

import (
	"strings"
	"testing"
)

// One configuration, written in two ways.
func TestSpellings(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	const plain = kubeHead + "bindAddress: 192.0.2.7\nclusterCIDR: 10.1.0.0/16,fd00::/64\n" +
		"healthzBindAddress: 192.0.2.7:10256\nmetricsBindAddress: 127.0.0.1\nnodePortAddresses: [10.0.0.0/8]\n" +
		"mode: ipvs\nipvs: {excludeCIDRs: [10.2.0.0/16]}\n---\n" + portaldHead +
		"nodeIPs: [192.0.2.7]\nexternalIPCIDRs: [203.0.113.0/24]\n"
	zeros := strings.NewReplacer("192.0.2.7", "192.0.002.07", "10.1.0.0/16", "10.01.0.9/16", "127.0.0.1", "127.00.0.1",
		"10.0.0.0/8", "010.0.0.0/08", "10.2.0.0", "10.02.0.0", "203.0.113.0", "203.00.113.0")
	mapped := strings.NewReplacer("bindAddress: 192.0.2.7", "bindAddress: ::ffff:192.0.2.7",
		"10.1.0.0/16", "::ffff:10.1.0.0/112", "[192.0.2.7]", `["::ffff:192.0.2.7"]`)
	for name, c := range map[string]struct{ a, b []string }{
		"zeros":             {[]string{"--config", inFile(t, plain)}, []string{"--config", inFile(t, zeros.Replace(plain))}},
		"mapped":            {[]string{"--config", inFile(t, plain)}, []string{"--config", inFile(t, mapped.Replace(plain))}},
		"empty flags":       {nil, []string{"--bind-address=", "--ipvs-scheduler=", "--proxy-port-range="}},
		"empty scheduler":   {[]string{"--proxy-mode=ipvs"}, []string{"--proxy-mode=ipvs", "--ipvs-scheduler="}},
		"any port":          {nil, []string{"--proxy-port-range=0-0"}},
		"any port, as once": {nil, []string{"--proxy-port-range=0"}},
		"any port, beside a file": {[]string{"--config", inFile(t, portaldHead)},
			[]string{"--config", inFile(t, portaldHead+"proxyPortRange: 20000-21000\n"), "--proxy-port-range=0-0"}},
		"a period of another mode": {[]string{"--proxy-mode=iptables"},
			[]string{"--proxy-mode=iptables", "--ipvs-sync-period=0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, err := complete(t, c.a...)
			check(t, err)
			b, _, err := complete(t, c.b...)
			check(t, err)
			a.documents, a.text, b.documents, b.text = documents{}, nil, documents{}, nil
			if d := diff(a, b); d != "" {
				t.Errorf("(-%q +%q)\n%s", c.a, c.b, d)
			}
		})
	}
}
