package kernel

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/portald/portald/portal"
)

// MaxBound is how many endpoints of a service port with affinity serve from one node, in one address family. Affinity
// takes rules and a list of clients for each endpoint, and iptables searches all lists for each rule that is loaded: a
// Service of ten thousand endpoints with four ports delayed all others for minutes.
const MaxBound = 1000

// bound returns MaxBound of the endpoints at most, by rendezvous hashing: each node has a choice of its own, and one
// endpoint more or less changes one of them.
func bound(all []portal.Endpoint, node string) []portal.Endpoint {
	if len(all) <= MaxBound {
		return all
	}
	type drawn struct {
		lot uint64
		at  int
	}
	lots := make([]drawn, len(all))
	for i, e := range all {
		h := fnv.New64a()
		h.Write([]byte(node + "/" + e.Addr.String()))
		lots[i] = drawn{h.Sum64(), i}
	}
	slices.SortFunc(lots, func(a, b drawn) int { return cmp.Compare(a.lot, b.lot) })
	out := make([]portal.Endpoint, 0, MaxBound)
	slices.SortFunc(lots[:MaxBound], func(a, b drawn) int { return cmp.Compare(a.at, b.at) })
	for _, d := range lots[:MaxBound] {
		out = append(out, all[d.at])
	}
	return out
}
