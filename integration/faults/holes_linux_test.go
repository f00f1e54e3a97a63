package faults

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/integration/topology"
)

// Incidents of paths: large packets vanish, and answers come from where nobody asked. How many of the connections a pod
// has is not said: one whose first dial takes long goes to the other.
func pathIncidents() map[string]incident {
	return map[string]incident{
		"large requests to one pod vanish": {
			traffic: sendsLarge(6), says: "(pod shop/pod1): ", verdict: "it looks like an MTU black hole, " +
				"a link from here to there",
			plant: func(n *node) { n.narrows(n.Net.Pod(1), "input") },
		},
		"large answers of one pod vanish": {
			traffic: sendsLarge(6), verdict: "miss segments in the middle of what it sends",
			says: "(pod shop/pod1): ", plant: func(n *node) { n.narrows(n.Net.Pod(1), "output") },
		},
		"large answers to a client vanish": {
			traffic: sendsLarge(6), says: "client 192.168.50.2: 6 of ", verdict: "it looks like an MTU black hole, " +
				"a link from here to there",
			plant: func(n *node) { n.narrows(n.Client, "input") },
		},
		"answers come from another address": {
			of: "shop/cart:talk", kernel: true, traffic: sendsDatagrams(6), verdict: "come from 10.244.0.9:8080, not from " +
				"10.244.0.3:8080: clients drop them (", says: "from 10.244.0.9:8080",
			plant: func(n *node) {
				pod, gateway := n.Net.Pod(1), n.gateway(n.Net.Pod(1))
				n.On(pod, "ip", "addr", "add", "10.244.0.9/32", "dev", "eth0")
				n.On(pod, "ip", "route", "replace", gateway, "dev", "eth0", "scope", "link", "src", "10.244.0.9")
				n.On(pod, "ip", "route", "replace", "default", "via", gateway, "src", "10.244.0.9")
				n.On(n.Node, "ip", "route", "add", "10.244.0.9", "dev", "pod1")
			},
		},
	}
}

// narrows has a link behind a host lose packets of more than 1,400 bytes in one direction, without a word: the host has
// a bridge before its interface. A packet that the interface itself drops its sender would know of.
func (n *node) narrows(at *topology.Host, direction string) {
	n.Helper()
	gateway := n.gateway(at)
	for _, line := range []string{
		"ip -4 addr flush dev eth0", "ip link add bridge0 type bridge", "ip link set eth0 master bridge0",
		"ip link set bridge0 up", "ip addr add " + at.IPv4.String() + "/32 dev bridge0",
		"ip route add " + gateway + " dev bridge0", "ip route add default via " + gateway,
	} {
		words := strings.Fields(line)
		n.On(at, words[0], words[1:]...)
	}
	n.On(at, "nft", "table bridge narrow { chain c { type filter hook "+direction+" priority 0; "+
		"ip length > 1400 drop; }; }")
}

// gateway is the address by which a host reaches all others.
func (n *node) gateway(of *topology.Host) string {
	n.Helper()
	return strings.Fields(n.On(of, "ip", "route", "show", "default"))[2] // default via ADDRESS
}

// sendsLarge sends more than a segment by connections that stay open. Small requests go on beside them.
func sendsLarge(times int) func(*node) {
	return func(n *node) {
		n.Helper()
		n.keep(times, strings.Repeat("x", 7000))
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			for ctx.Err() == nil {
				asks(1)(n)
				time.Sleep(50 * time.Millisecond)
			}
		})
		n.Cleanup(func() { cancel(); all.Wait() })
	}
}
