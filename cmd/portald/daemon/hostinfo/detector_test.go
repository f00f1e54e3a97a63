package hostinfo

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// The pods of the Node object count in the mode NodeCIDR alone, and only a change of them is one.
func TestPodCIDRsOfTheNode(t *testing.T) {
	pods := prefixes("10.244.1.0/24")
	byNode := NewLocalDetector(config.DetectLocal{Mode: config.ByNodeCIDR}, nil)
	if !byNode.SetPodCIDRs(pods) || byNode.SetPodCIDRs(prefixes("10.244.1.0/24")) {
		t.Error("a change is not told from none")
	}
	if got, want := byNode.Rules(), (portal.LocalDetector{Sources: pods}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	fixed := config.DetectLocal{Mode: config.ByClusterCIDR, CIDRs: prefixes("10.0.0.0/8")}
	if d := NewLocalDetector(fixed, nil); d.SetPodCIDRs(pods) || !d.inRange(netip.MustParseAddr("10.9.9.9")) {
		t.Error("clusterCIDR gave way to the node's")
	}
}

// Each mode tells the writer the same as the listener.
func TestDetectorModes(t *testing.T) {
	for _, c := range []struct {
		mode    config.DetectLocal
		rules   portal.LocalDetector
		matches map[string]bool
	}{
		{config.DetectLocal{Mode: config.ByBridgeInterface, Interface: "cni0"}, portal.LocalDetector{Interface: "cni0"},
			map[string]bool{"cni0": true, "cni01": false, "": false}},
		{config.DetectLocal{Mode: config.ByInterfacePrefix, Interface: "veth"}, portal.LocalDetector{InterfacePrefix: "veth"},
			map[string]bool{"veth1": true, "eth0": false, "": false}},
	} {
		d := NewLocalDetector(c.mode, nil)
		if got := d.Rules(); !reflect.DeepEqual(got, c.rules) {
			t.Errorf("%s: %+v, want %+v", c.mode.Mode, got, c.rules)
		}
		for name, want := range c.matches {
			if d.matches(name) != want {
				t.Errorf("%s: interface %q inside: %v", c.mode.Mode, name, !want)
			}
		}
	}
}

// Clients on this host are inside in every mode.
func TestThisHostIsInside(t *testing.T) {
	own, err := platform.NewLocalSet("")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []config.DetectLocalMode{
		config.ByClusterCIDR, config.ByNodeCIDR, config.ByBridgeInterface, config.ByInterfacePrefix,
	} {
		d := NewLocalDetector(config.DetectLocal{Mode: mode}, &Host{Addresses: own})
		inside, known := d.IsLocalKnown(netip.MustParseAddr("127.0.0.1"), 1)
		if !inside || !known || !d.IsLocal(netip.IPv6Loopback(), 1) {
			t.Errorf("%s: not inside", mode)
		}
	}
}
