package layout

import "github.com/portald/portald/portal/nftables/nft"

// sets are those that every table has.
type sets struct {
	Ips, NodePorts Scope
	ClusterIPs     *nft.Set
	Hairpins       *nft.Set // of an endpoint's address, twice: connections of endpoints to themselves
	FromNode       *nft.Set // of load balancers, dialled from their own addresses, which this node has
	ProxyPorts     *nft.Set // at which the daemon listens
}

// Scope is the sets of one kind of frontends: those with an address, or node ports.
type Scope struct {
	Name      string
	Redirects *nft.Set // to ports, for everyone
	Internal  *nft.Set // to ports, for clients inside the cluster only; looked up in a chain of its own
	Chains    *nft.Set // to chains, of portals that are not plain
	Plain     *nft.Set // portals that need no chain of their own: see isPlain
	External  *nft.Set // the part of plain that masquerades all clients; nil = all of them do
	Refused   *nft.Set
	Dropped   *nft.Set
	Outside   *nft.Set // portals that have endpoints for clients inside the cluster only: others are dropped
}

// Counting are the sets whose elements count packets for which there is no endpoint.
func (s Scope) Counting() []*nft.Set { return []*nft.Set{s.Refused, s.Dropped, s.Outside} }

func NewSets(f nft.Family) sets {
	return sets{
		Ips:        newScope("ips", true, nft.Key{f.DAddr(), nft.L4Proto(), nft.DPort()}),
		NodePorts:  newScope("nodeports", false, nft.Key{nft.L4Proto(), nft.DPort()}),
		ClusterIPs: &nft.Set{Name: "cluster-ips", Key: nft.Key{f.DAddr()}},
		Hairpins:   &nft.Set{Name: "hairpin-connections", Key: nft.Key{f.SAddr(), f.DAddr()}},
		FromNode: &nft.Set{Name: "load-balancers-from-node",
			Key: nft.Key{f.SAddr(), f.DAddr(), nft.L4Proto(), nft.DPort()}},
		ProxyPorts: &nft.Set{Name: "proxy-ports", Key: nft.Key{nft.L4Proto(), nft.DPort()}},
	}
}

// newScope makes the sets of a scope, clusterIPs telling whether such are among its frontends.
func newScope(name string, clusterIPs bool, k nft.Key) Scope {
	s := Scope{
		Name:      name,
		Redirects: &nft.Set{Name: "redirect-" + name, Key: k, Data: nft.Key{nft.DPort()}},
		Internal:  &nft.Set{Name: "inside-" + name, Key: k, Data: nft.Key{nft.DPort()}},
		Chains:    &nft.Set{Name: "service-" + name, Key: k, Verdicts: true},
		Plain:     &nft.Set{Name: "plain-" + name, Key: k},
		Refused:   &nft.Set{Name: "rejected-" + name, Key: k, Counts: true},
		Dropped:   &nft.Set{Name: "discarded-" + name, Key: k, Counts: true},
		Outside:   &nft.Set{Name: "outside-" + name, Key: k, Counts: true},
	}
	if clusterIPs {
		s.External = &nft.Set{Name: "external-" + name, Key: k}
	}
	return s
}

// All are in the order of the text.
func (s sets) All() []*nft.Set {
	var all []*nft.Set
	for _, scope := range []Scope{s.Ips, s.NodePorts} {
		all = append(all, scope.Redirects, scope.Internal, scope.Chains, scope.Plain)
		if scope.External != nil {
			all = append(all, scope.External)
		}
		all = append(all, scope.Counting()...)
	}
	return append(all, s.ClusterIPs, s.Hairpins, s.FromNode, s.ProxyPorts)
}
