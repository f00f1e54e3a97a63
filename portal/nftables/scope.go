package nftables

// sets are those that every table has.
type sets struct {
	ips, nodePorts scope
	clusterIPs     *set
	hairpins       *set // of an endpoint's address, twice: connections of endpoints to themselves
	fromNode       *set // of load balancers, dialled from their own addresses, which this node has
	proxyPorts     *set // at which the daemon listens
}

// scope is the sets of one kind of frontends: those with an address, or node ports.
type scope struct {
	name      string
	redirects *set // to ports, for everyone
	internal  *set // to ports, for clients inside the cluster only; looked up in a chain of its own
	chains    *set // to chains, of portals that are not plain
	plain     *set // portals that need no chain of their own: see isPlain
	external  *set // those of plain that masquerade all clients; nil = all of them do
	refused   *set
	dropped   *set
}

func (f family) newSets() sets {
	return sets{
		ips:        newScope("ips", true, key{f.daddr(), l4proto(), dport()}),
		nodePorts:  newScope("nodeports", false, key{l4proto(), dport()}),
		clusterIPs: &set{name: "cluster-ips", key: key{f.daddr()}},
		hairpins:   &set{name: "hairpin-connections", key: key{f.saddr(), f.daddr()}},
		fromNode: &set{name: "load-balancers-from-node",
			key: key{f.saddr(), f.daddr(), l4proto(), dport()}},
		proxyPorts: &set{name: "proxy-ports", key: key{l4proto(), dport()}},
	}
}

// newScope makes the sets of a scope, clusterIPs telling whether such are among its frontends.
func newScope(name string, clusterIPs bool, k key) scope {
	s := scope{
		name:      name,
		redirects: &set{name: "redirect-" + name, key: k, data: key{dport()}},
		internal:  &set{name: "inside-" + name, key: k, data: key{dport()}},
		chains:    &set{name: "service-" + name, key: k, verdicts: true},
		plain:     &set{name: "plain-" + name, key: k},
		refused:   &set{name: "refused-" + name, key: k},
		dropped:   &set{name: "dropped-" + name, key: k},
	}
	if clusterIPs {
		s.external = &set{name: "external-" + name, key: k}
	}
	return s
}

// all are in the order of the text.
func (s sets) all() []*set {
	var all []*set
	for _, scope := range []scope{s.ips, s.nodePorts} {
		all = append(all, scope.redirects, scope.internal, scope.chains, scope.plain)
		if scope.external != nil {
			all = append(all, scope.external)
		}
		all = append(all, scope.refused, scope.dropped)
	}
	return append(all, s.clusterIPs, s.hairpins, s.fromNode, s.proxyPorts)
}
