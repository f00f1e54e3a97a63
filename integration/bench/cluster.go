//go:build linux

package main

import (
	"fmt"
	"net/netip"
)

const thisNode = "node" // name of the node on which portald runs

// In kernel modes there are rules for each endpoint: each is the number of endpoints per Service, nodes the number of
// nodes.
const (
	each  = 10
	nodes = 500
)

// Numbers of Services, from which the addresses of their endpoints are derived.
const (
	measured = iota
	changing
	further // and those that follow
)

// crowd is a range whose addresses are all local to one pod, which stands for many pods.
func crowd(pod int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | byte(pod)<<5, 0, 0}), 11)
}

// endpoint is the address and node of a pod.
type endpoint struct {
	at   netip.Addr
	node string
}

// endpoints lists the endpoints of a Service at one of the pods. In kernel modes they are spread over the nodes of a
// large cluster, because a local endpoint needs more rules than a remote one.
func (b *bed) endpoints(service, pod int) []endpoint {
	if b.mode == userspace {
		return []endpoint{{b.net.Pod(pod).IPv4, thisNode}}
	}
	first := crowd(pod).Addr().As4()
	var all []endpoint
	for n := service * each; n < (service+1)*each; n++ {
		on := fmt.Sprint("node-", n%nodes)
		if n%nodes == 0 {
			on = thisNode
		}
		at := netip.AddrFrom4([4]byte{first[0], first[1] | byte(n>>16), byte(n >> 8), byte(n)})
		all = append(all, endpoint{at, on})
	}
	return all
}
