package modes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// From manifests without this node's Node, primary is the host's own address, in the nftables mode where it is the
// default and elsewhere. A Node that says otherwise is followed, and the log says where NodePorts are served.
func TestPrimaryAddressFromManifests(t *testing.T) {
	for name, args := range map[string][]string{
		"nftables":  {"--proxy-mode=nftables"},
		"userspace": {"--nodeport-addresses=primary"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0)
			b.On(b.Node, "ip", "address", "add", "203.0.113.9/32", "dev", "lo")
			b.On(b.Client, "ip", "route", "add", "203.0.113.9", "via", b.Node.IPv4.String())
			served := func(from *topology.Host, host string) bool {
				a, err := bed.AskWithin(bed.SilenceTimeout, from, "tcp", bed.HostPort(host, bed.NodePort))
				return err == nil && a.Pod == "pod0"
			}
			own4, own6 := b.Node.IPv4.String(), b.Node.IPv6.String()
			d := b.Start(b.Cart(0), args...)
			for _, own := range []string{own4, own6} {
				b.Eventually("NodePorts on "+own, func() bool { return served(b.Client, own) })
			}
			if served(b.Client, "203.0.113.9") {
				t.Error("NodePorts are served on another address than the host's own")
			}
			logged := func(want string) {
				t.Helper()
				b.Eventually("in the log, once: "+want, func() bool { return strings.Count(d.Log.String(), want) == 1 })
			}
			logged(fmt.Sprintf(`NodePorts are served on %s, %s, this host's own: the manifests have no Node \"here\"`,
				own4, own6))
			logged("Ready: all service ports are served")

			node := "---\napiVersion: v1\nkind: Node\nmetadata: {name: here}\n" +
				"status: {addresses: [{type: InternalIP, address: 203.0.113.9}]}\n"
			d.Apply(b.Cart(0).String() + node)
			b.Eventually("the Node's address", func() bool { return served(b.Client, "203.0.113.9") })
			if served(b.Client, own4) {
				t.Error("NodePorts are served on an address that the Node does not have")
			}
			logged(`NodePorts are served on 203.0.113.9, of the Node \"here\"`)
		})
	}
}

// An address that is not served is not reported as served.
func TestNodePortsOnNoAddress(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0), "--proxy-mode=iptables", "--nodeport-addresses=203.0.113.0/24")
	want := "Ready: service ports are served, but NodePorts on no address: this host has no address in " +
		"nodePortAddresses 203.0.113.0/24"
	b.Eventually("the log to say "+want, func() bool { return strings.Contains(d.Log.String(), want) })
	if got := d.Log.String(); strings.Contains(got, "Ready: all") {
		t.Errorf("the log says more\n%s", got)
	}
}
