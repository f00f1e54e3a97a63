package daemon

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
)

// Where NodePorts are served, and why they are not.
func TestNodePorts(t *testing.T) {
	addrs := func(text string) (out []netip.Addr) {
		for a := range strings.FieldsSeq(text) {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	primary := config.NodePortAddresses{Primary: true}
	manifests := []string{"cluster.yaml"}
	for _, c := range []struct {
		name            string
		cfg             config.Config
		host, own, node string
		none, told      string // parts
	}{
		{name: "everywhere", cfg: config.Config{NodePorts: config.NodePortAddresses{All: true}}},
		{name: "the Node's", cfg: config.Config{NodePorts: primary}, host: "192.0.2.1 192.0.2.2", own: "192.0.2.1",
			node: "192.0.2.2 203.0.113.1", told: `on 192.0.2.2, of the Node \"n1\"`},
		{name: "the API server's, without a Node", cfg: config.Config{NodePorts: primary}, host: "192.0.2.1",
			own: "192.0.2.1", none: `no Node "n1" with an address is known`},
		{name: "a Node with addresses of others", cfg: config.Config{NodePorts: primary}, host: "192.0.2.1",
			node: "203.0.113.1", none: "this host has no address in nodePortAddresses 203.0.113.1"},
		{name: "manifests without a Node", cfg: config.Config{NodePorts: primary, Manifests: manifests},
			host: "192.0.2.1 fd00::1", own: "192.0.2.1 fd00::1",
			told: `on 192.0.2.1, fd00::1, this host's own: the manifests have no Node \"n1\"`},
		{name: "manifests with one", cfg: config.Config{NodePorts: primary, Manifests: manifests},
			host: "192.0.2.1 192.0.2.2", own: "192.0.2.1", node: "192.0.2.2", told: "on 192.0.2.2, of the Node"},
		{name: "a host without addresses", cfg: config.Config{NodePorts: primary, Manifests: manifests},
			none: "this host has no address that others can reach"},
		{name: "loopback alone, as asked", cfg: config.Config{LocalhostNodePorts: true,
			NodePorts: config.NodePortAddresses{CIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
			host: "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.NodeName = "n1"
			n := &nodePorts{
				cfg: &c.cfg, host: func() []netip.Addr { return addrs(c.host) }, own: func() []netip.Addr { return addrs(c.own) },
			}
			n.setNode(addrs(c.node))
			if got := n.none(); (got == "") != (c.none == "") || !strings.Contains(got, c.none) {
				t.Errorf("none: %q, want %q", got, c.none)
			}
			var text bytes.Buffer
			log := logrus.New()
			log.SetOutput(&text)
			n.tell(log)
			n.tell(log)
			if got := text.String(); strings.Count(got, "\n") != min(1, len(c.told)) || !strings.Contains(got, c.told) {
				t.Errorf("told %q, want %q once", got, c.told)
			}
		})
	}
}
