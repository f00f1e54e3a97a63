package hostinfo

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
)

func addrsOf(text string) (out []netip.Addr) {
	for a := range strings.FieldsSeq(text) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func ranges(text string) (out config.NodePortAddresses) {
	for r := range strings.FieldsSeq(text) {
		out.CIDRs = append(out.CIDRs, netip.MustParsePrefix(r))
	}
	return out
}

// nodePortsOf returns the NodePorts of a host with addresses, of which some are its primary ones.
func nodePortsOf(cfg *config.Config, host, own *string) (n *NodePorts, log *bytes.Buffer) {
	log = &bytes.Buffer{}
	to := logrus.New()
	to.SetOutput(log)
	n = &NodePorts{cfg: cfg, log: to, host: func() []netip.Addr { return addrsOf(*host) },
		own: func() []netip.Addr { return addrsOf(*own) }}
	n.Refresh()
	return n, log
}

// Where NodePorts are served, and why they are not.
func TestNodePorts(t *testing.T) {
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
		{name: "CIDRs", cfg: config.Config{NodePorts: ranges("192.0.2.0/24 fd00::/8")},
			host: "192.0.2.1 192.0.2.2 203.0.113.1 fd00::1", told: `on 192.0.2.1, 192.0.2.2, fd00::1"`},
		{name: "CIDRs of others", cfg: config.Config{NodePorts: ranges("203.0.113.0/24")}, host: "192.0.2.1",
			none: "this host has no address in nodePortAddresses 203.0.113.0/24"},
		{name: "loopback alone, as asked", cfg: config.Config{LocalhostNodePorts: [2]bool{true, false},
			NodePorts: ranges("127.0.0.0/8")}, host: "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.NodeName = "n1"
			n, log := nodePortsOf(&c.cfg, &c.host, &c.own)
			n.SetNode(addrsOf(c.node))
			for range 2 {
				if got := n.Announce(); (got == "") != (c.none == "") || !strings.Contains(got, c.none) {
					t.Errorf("none: %q, want %q", got, c.none)
				}
			}
			if got := log.String(); strings.Count(got, "\n") != min(1, len(c.told)) || !strings.Contains(got, c.told) {
				t.Errorf("told %q, want %q once", got, c.told)
			}
		})
	}
}

// Servers are bound to the addresses of NodePorts that the host has: nowhere if it has none, everywhere if all are.
func TestWhereNodePortsAreBound(t *testing.T) {
	const host = "192.0.2.7 198.51.100.7 fd00:9::7"
	for _, c := range []struct {
		cfg  config.Config
		want string
	}{
		{config.Config{NodePorts: config.NodePortAddresses{All: true}}, "0.0.0.0 ::"},
		{config.Config{NodePorts: ranges("192.0.2.0/24 192.0.0.0/8")}, "192.0.2.7"},
		{config.Config{NodePorts: ranges("192.0.2.0/24 fd00::/8")}, "192.0.2.7 fd00:9::7"},
		{config.Config{NodePorts: ranges("203.0.113.0/24 fe80::/10")}, ""},
		{config.Config{NodePorts: ranges("0.0.0.0/0 ::/0"), LocalhostNodePorts: [2]bool{true, true}}, "0.0.0.0 ::"},
		{config.Config{NodePorts: ranges("192.0.2.0/24 ::/0"), LocalhostNodePorts: [2]bool{false, true}}, "192.0.2.7 ::"},
		{config.Config{NodePorts: ranges("127.0.0.0/8"), LocalhostNodePorts: [2]bool{true, false}}, "127.0.0.1"},
		{config.Config{NodePorts: config.NodePortAddresses{Localhost: true}, LocalhostNodePorts: [2]bool{true, true}},
			"127.0.0.1 ::1"},
		{config.Config{NodePorts: config.NodePortAddresses{Localhost: true}}, ""}, // not there by localhostNodePorts
		{config.Config{NodePorts: config.NodePortAddresses{Primary: true}}, "198.51.100.7"},
		{config.Config{NodePorts: config.NodePortAddresses{Primary: true, CIDRs: ranges("fd00::/8").CIDRs},
			NodeAddress: netip.MustParseAddr("192.0.2.7")}, "192.0.2.7 fd00:9::7"},
	} {
		addrs := host
		n, _ := nodePortsOf(&c.cfg, &addrs, new(string))
		n.SetNode(addrsOf("198.51.100.7 198.51.100.8"))
		var got string
		n.Follow(func(at []netip.Addr) { got = fmt.Sprint(at) })
		if got != "["+c.want+"]" {
			t.Errorf("%+v: at %s, want %q", c.cfg.NodePorts, got, c.want)
		}
	}
}

// Changes, and nothing else, are reported to followers and logged.
func TestNodePortsFollow(t *testing.T) {
	host, own := "", ""
	n, log := nodePortsOf(&config.Config{NodePorts: ranges("203.0.113.0/24 fd00::/8")}, &host, &own)
	var at []string
	n.Follow(func(addrs []netip.Addr) { at = append(at, fmt.Sprint(addrs)) })
	if n.Announce() == "" {
		t.Error("NodePorts are on no address, and nothing says so")
	}
	for _, step := range []struct {
		host, want, said string
	}{
		{"192.0.2.1", "", ""},
		{"192.0.2.1 203.0.113.9", "[203.0.113.9]", "NodePorts are served on 203.0.113.9"},
		{"192.0.2.2 203.0.113.9", "", ""},
		{"203.0.113.10 fd00::9", "[203.0.113.10 fd00::9]", "NodePorts are served on 203.0.113.10, fd00::9"},
		{"192.0.2.2", "[]", "NodePorts are served on no address any more: this host has no address in nodePortAddresses"},
	} {
		at = nil
		log.Reset()
		host = step.host
		changed := n.Refresh()
		if got := strings.Join(at, ", then "); got != step.want || changed != (step.want != "") {
			t.Errorf("%q: changed %v, at %q, want %q", step.host, changed, got, step.want)
		}
		if got := log.String(); strings.Count(got, "\n") != min(1, len(step.said)) || !strings.Contains(got, step.said) {
			t.Errorf("%q: said %q, want %q", step.host, got, step.said)
		}
		for _, a := range addrsOf(step.host) {
			if want := strings.HasPrefix(step.want, "[") && strings.Contains(step.want, a.String()); step.want != "" &&
				n.On(a) != want {
				t.Errorf("%q: on %s: %v", step.host, a, n.On(a))
			}
		}
	}
}
