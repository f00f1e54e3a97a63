package explain

import (
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Addresses that endpoints may see.
const (
	ofClient = "the client's own address"
	ofNode   = "this node's address"
	ofEither = "the client's own address where answers pass this node, else this node's"
)

const sourceTitle = "Source address"

// sources says which address endpoints would see, and which policies of the network notice.
func (f *flip) sources() {
	type difference struct{ who, then, now string }
	var all []difference
	kinds := map[difference][]string{}
	add := func(x service.Exposure, d difference) {
		if d.then == d.now {
			return
		}
		if kinds[d] == nil {
			all = append(all, d)
		}
		if kind := x.Kind.String(); !slices.Contains(kinds[d], kind) {
			kinds[d] = append(kinds[d], kind)
		}
	}
	for _, x := range f.Port.Exposures {
		known := f.podsKnown(inet.FamilyOf(x.Frontend.Addr.Addr()))
		pods := difference{"pods", f.source(f.to, x, true, known), f.source(f.from, x, true, known)}
		others := difference{"other clients", f.source(f.to, x, false, known), f.source(f.from, x, false, known)}
		if pods.then == others.then && pods.now == others.now {
			pods.who, others.who = "clients", "clients"
		}
		add(x, pods)
		add(x, others)
	}
	for _, d := range all {
		f.say(sourceTitle, Doubt, "%s, by %s: endpoints see %s, now %s", d.who, strings.Join(kinds[d], ", "), d.then, d.now)
	}
	f.header()
	f.policies(len(all) > 0)
}

// podsKnown tells whether rules tell pods of a family from other clients.
func (f *flip) podsKnown(family inet.Family) bool {
	d := f.node.Pods
	if len(d.Sources) == 0 {
		return d.PodsKnown()
	}
	for _, p := range d.Sources {
		if inet.FamilyOf(p.Addr()) == family {
			return true
		}
	}
	return false
}

// source is the address that endpoints see of a client in a mode.
func (f *flip) source(m service.Mode, x service.Exposure, pod, podsKnown bool) string {
	if m == service.ModeUserspace {
		if f.policy().ClientAddress == service.AddressTransparent {
			return ofEither
		}
		return ofNode
	}
	spread := portal.Spread{Pool: &portal.Pool{}, Scope: f.Port.Scope(x.Kind)}
	forwarding := spread.Forwarding(x.Kind, f.node.Masquerade, podsKnown)
	of := forwarding.Outside
	if pod {
		of = forwarding.Pods
	}
	if of.Masquerade {
		return ofNode
	}
	return ofClient
}

// header says what becomes of the PROXY protocol header.
func (f *flip) header() {
	if f.policy().ClientAddress != service.AddressProxyV2 || f.Port.Name.Protocol != inet.TCP {
		return
	}
	f.say(sourceTitle, Doubt, "%s", f.either("endpoints get no PROXY protocol header any more: those that expect one do "+
		"not understand their clients", "each connection begins with a PROXY protocol header: endpoints have to expect one"))
}

// policies says which policies of the network behave differently.
func (f *flip) policies(address bool) {
	const title = "NetworkPolicies"
	if address {
		f.say(title, Fact, "ingress of the endpoints, by podSelector, namespaceSelector or ipBlock: %s", f.either(
			"matches the clients, which come as this node now: it refuses those that it does not let in",
			"matches this node, as which the clients come then: it refuses them, or lets them in, as it does this node"))
	}
	f.say(title, Fact, "egress of pods that are clients: %s", f.either(
		"they connect to the endpoint, which has to be allowed, and not to this node",
		"they connect to this node, which many networks refuse unless its address is allowed, and not to the endpoint"))
	f.say(title, Fact, "portald does not read policies: kubectl get networkpolicies -A, or portald config check "+
		"--kubeconfig")
}
