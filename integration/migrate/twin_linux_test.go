package migrate

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// newTwin is a node with the same addresses in a network of its own, whose API server is the same.
func newTwin(b *apibed.Bed) *bed.Bed {
	b.Helper()
	all, err := topology.NewCluster(b.Context(), 1, topology.Options{Clients: 2, Pods: 4, IPv6: true,
		Name: fmt.Sprintf("n%d-twin-", bed.Networks.Add(1))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { b.Sites[0].Must(all.Close()) })
	lan := all.Nets[0]
	twin := &bed.Bed{T: b.T, Net: lan, Node: lan.Node, Client: lan.Client(0), Dir: b.TempDir()}
	twin.RouteOut()
	at := bed.HostPort(b.API.Host.IPv4.String(), 6443)
	l, err := all.Control.Listen("tcp", at)
	twin.Must(err)
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go forward(c, b.API.Host, at)
		}
	}()
	return twin
}

// forward connects to an address from a host, and copies in both directions until one of them ends.
func forward(c net.Conn, from *topology.Host, to string) {
	defer c.Close()
	server, err := from.Dial(context.Background(), "tcp", to)
	if err != nil {
		return // which the client sees
	}
	defer server.Close()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{c, server}, {server, c}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// plant gives a node rules of others: a kubelet's, a network's, and a table of nftables.
func plant(b *bed.Bed) {
	b.Helper()
	for _, command := range []string{"iptables-nft-restore", "ip6tables-nft-restore"} {
		b.On(b.Node, command, "--noflush", b.WriteManifest("others", `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:NETWORK-FORWARD - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A FORWARD -j NETWORK-FORWARD
COMMIT
*nat
:NETWORK-MASQ - [0:0]
-A POSTROUTING -j NETWORK-MASQ
COMMIT
`))
	}
	b.On(b.Node, "nft", "add table inet others; add chain inet others input { type filter hook input priority 5; }; "+
		"add rule inet others input tcp dport 9 counter drop")
}
