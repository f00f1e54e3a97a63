package topology

import (
	"fmt"
	"net/netip"
)

// The service ranges: no interface has such an address, and clients and pods send them to the node by their default
// route. They are those of a kubeadm cluster.
const (
	ClusterIPs4 = "10.96.0.0/12"
	ClusterIPs6 = "fd00:10:96::/112"
)

// side is where a node's clients or pods are: the node has the first address of each range, and they those that follow.
type side struct{ v4, v6 netip.Prefix }

// sides are those of a node by its number in a cluster.
func sides(number int) (lan, pods side) {
	return side{prefix("192.168.%d.0/24", 50+number), prefix("fd00:192:168:%d::/64", 50+number)},
		side{prefix("10.244.%d.0/24", number), prefix("fd00:10:244:%d::/64", number)}
}

func prefix(format string, number int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, number))
}

// gateway is the node's own address, one of each family.
func (s side) gateway() (v4, v6 netip.Addr) { return s.v4.Addr().Next(), s.v6.Addr().Next() }

// Options configure the size of a network. The zero value has a client, a node and no pods, with IPv4 only.
type Options struct {
	Clients int // 0 = 1; at most 200
	Pods    int // at most 200
	IPv6    bool
	Name    string // goes before the names of the namespaces; two networks at one time need two names
}

// Net is a network: clients on one side of a node, pods on the other.
type Net struct {
	Node        *Host
	lan, podLAN side
	clients     []*Host
	pods        []*Host
	made        []*Host // those that Close takes down
}

// PodRange is the address range of the pods, as in podCIDRs of a Node object.
func (n *Net) PodRange() (v4, v6 netip.Prefix) { return n.podLAN.v4, n.podLAN.v6 }

// Client returns a client, counted from 0.
func (n *Net) Client(i int) *Host { return n.clients[i] }

// Pod returns a pod, counted from 0.
func (n *Net) Pod(i int) *Host { return n.pods[i] }

// Host is one network namespace. IPv6 is the zero address in a network without it. A node has one address towards
// clients, which is the one here, and one towards pods.
type Host struct {
	Name       string // of its namespace, as in /run/netns
	IPv4, IPv6 netip.Addr
}
