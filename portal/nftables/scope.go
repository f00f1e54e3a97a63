package nftables

import "slices"

// sets are those that every table has.
type sets struct {
	ips, nodePorts scope
	clusterIPs     *set
	hairpins       *set // pairs of addresses of endpoints that dial themselves
	proxyPorts     *set // at which listeners of the daemon are
}

// scope is the portals of one form: by address, or node ports.
type scope struct {
	name      string
	redirects *set // to ports, for everyone
	insiders  *set // to ports, for clients inside the cluster; chains lead here
	chains    *set // to chains of those that are not plain
	plain     *set // those that spread over endpoints and ask nothing of the client
	external  *set // of these, those that masquerade everyone; nil: all do
	refused   *set
	dropped   *set
}

func newSets() sets {
	return sets{
		ips:        newScope("ips", byDestination, byProtocol, byPort),
		nodePorts:  newScope("nodeports", byProtocol, byPort),
		clusterIPs: &set{name: "cluster-ips", key: key{byDestination}},
		hairpins:   &set{name: "hairpin-connections", key: key{bySource, byDestination}},
		proxyPorts: &set{name: "proxy-ports", key: key{byProtocol, byPort}},
	}
}

func newScope(name string, parts ...field) scope {
	k := key(parts)
	s := scope{
		name:      name,
		redirects: &set{name: "redirect-" + name, key: k, data: ports},
		insiders:  &set{name: "inside-" + name, key: k, data: ports},
		chains:    &set{name: "service-" + name, key: k, data: verdicts},
		plain:     &set{name: "plain-" + name, key: k},
		refused:   &set{name: "refused-" + name, key: k},
		dropped:   &set{name: "dropped-" + name, key: k},
	}
	if slices.Contains(k, byDestination) {
		s.external = &set{name: "external-" + name, key: k}
	}
	return s
}

// all are in the order in which they are shown.
func (s sets) all() []*set {
	var all []*set
	for _, scope := range []scope{s.ips, s.nodePorts} {
		all = append(all, scope.redirects, scope.insiders, scope.chains, scope.plain)
		if scope.external != nil {
			all = append(all, scope.external)
		}
		all = append(all, scope.refused, scope.dropped)
	}
	return append(all, s.clusterIPs, s.hairpins, s.proxyPorts)
}
