package topology

import "net/netip"

// The service ranges: no interface has such an address, and clients and pods send them to the node by their default
// route. They are those of a kubeadm cluster.
const (
	ClusterIPs4 = "10.96.0.0/12"
	ClusterIPs6 = "fd00:10:96::/112"
)

// The node's addresses, on which those of the clients and pods follow.
const (
	lan4, lan6   = "192.168.50.1", "fd00:192:168:50::1"
	pods4, pods6 = "10.244.0.1", "fd00:10:244::1"
)

// Options say how large a network is. The zero value has a client, a node and no pod, IPv4 alone.
type Options struct {
	Clients int // 0 = 1; at most 200
	Pods    int // at most 200
	IPv6    bool
	Name    string // goes before the names of the namespaces; two networks at one time need two names
}

// Net is a network: clients on one side of a node, pods on the other.
type Net struct {
	Node    *Host
	clients []*Host
	pods    []*Host
	made    []*Host // those that Close takes down
}

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
