package layout

import (
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// isRandom tells whether an algorithm is the one of plain portals.
func isRandom(a service.Algorithm) bool { return a == service.AlgorithmDefault || a == service.Random }

// choice is the number of the endpoint that an algorithm chooses among n, which are two at least. Endpoints are in the
// order of their addresses on each node, and with the same seed a client has the same one everywhere.
func choice(f nft.Family, by service.Algorithm, n int) nft.Expression {
	switch by {
	case service.RoundRobin:
		return nft.Counter(uint32(n))
	case service.SourceHash:
		return f.ClientHash(uint32(n))
	}
	return nft.Numgen(uint32(n), 0)
}

// Turn matches the share of endpoint i among n, where each has a rule of its own: a share of what the rules before it
// left. The first rule's counter takes each n-th flow, the next one's each (n-1)-th of the others: so they take turns.
func Turn(f nft.Family, by service.Algorithm, i, n int) nft.Rule {
	switch {
	case i == n-1:
		return nil
	case by == service.SourceHash:
		return nft.Rule{nft.Is(f.ClientHash(uint32(n)), i)}
	}
	return nft.Rule{nft.Is(choice(f, by, n-i), 0)}
}
