package nftables

import "github.com/portald/portald/portal/nftables/nft"

// sets are those that every table has.
type sets struct {
	ips, nodePorts scope
	clusterIPs     *nft.Set
	hairpins       *nft.Set // of an endpoint's address, twice: connections of endpoints to themselves
	fromNode       *nft.Set // of load balancers, dialled from their own addresses, which this node has
	proxyPorts     *nft.Set // at which the daemon listens
}

// scope is the sets of one kind of frontends: those with an address, or node ports.
type scope struct {
	name      string
	redirects *nft.Set // to ports, for everyone
	internal  *nft.Set // to ports, for clients inside the cluster only; looked up in a chain of its own
	chains    *nft.Set // to chains, of portals that are not plain
	plain     *nft.Set // portals that need no chain of their own: see isPlain
	external  *nft.Set // those of plain that masquerade all clients; nil = all of them do
	refused   *nft.Set
	dropped   *nft.Set
}

func newSets(f nft.Family) sets {
	return sets{
		ips:        newScope("ips", true, nft.Key{f.DAddr(), nft.L4Proto(), nft.DPort()}),
		nodePorts:  newScope("nodeports", false, nft.Key{nft.L4Proto(), nft.DPort()}),
		clusterIPs: &nft.Set{Name: "cluster-ips", Key: nft.Key{f.DAddr()}},
		hairpins:   &nft.Set{Name: "hairpin-connections", Key: nft.Key{f.SAddr(), f.DAddr()}},
		fromNode: &nft.Set{Name: "load-balancers-from-node",
			Key: nft.Key{f.SAddr(), f.DAddr(), nft.L4Proto(), nft.DPort()}},
		proxyPorts: &nft.Set{Name: "proxy-ports", Key: nft.Key{nft.L4Proto(), nft.DPort()}},
	}
}

// newScope makes the sets of a scope, clusterIPs telling whether such are among its frontends.
func newScope(name string, clusterIPs bool, k nft.Key) scope {
	s := scope{
		name:      name,
		redirects: &nft.Set{Name: "redirect-" + name, Key: k, Data: nft.Key{nft.DPort()}},
		internal:  &nft.Set{Name: "inside-" + name, Key: k, Data: nft.Key{nft.DPort()}},
		chains:    &nft.Set{Name: "service-" + name, Key: k, Verdicts: true},
		plain:     &nft.Set{Name: "plain-" + name, Key: k},
		refused:   &nft.Set{Name: "refused-" + name, Key: k},
		dropped:   &nft.Set{Name: "dropped-" + name, Key: k},
	}
	if clusterIPs {
		s.external = &nft.Set{Name: "external-" + name, Key: k}
	}
	return s
}

// all are in the order of the text.
func (s sets) all() []*nft.Set {
	var all []*nft.Set
	for _, scope := range []scope{s.ips, s.nodePorts} {
		all = append(all, scope.redirects, scope.internal, scope.chains, scope.plain)
		if scope.external != nil {
			all = append(all, scope.external)
		}
		all = append(all, scope.refused, scope.dropped)
	}
	return append(all, s.clusterIPs, s.hairpins, s.fromNode, s.proxyPorts)
}
