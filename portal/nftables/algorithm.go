package nftables

import (
	"errors"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// isRandom tells whether an algorithm is that of plain portals.
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

// turn is what the rule of endpoint i among n matches, where each has a rule of its own: a share of what the rules
// before it left. The first rule's counter takes each n-th flow, the next one's each (n-1)-th of the others: so they
// take turns.
func turn(f nft.Family, by service.Algorithm, i, n int) nft.Rule {
	switch {
	case i == n-1:
		return nil
	case by == service.SourceHash:
		return nft.Rule{nft.Is(f.ClientHash(uint32(n)), i)}
	}
	return nft.Rule{nft.Is(choice(f, by, n-i), 0)}
}

// Offers tells whether rules can choose endpoints by an algorithm, on a kernel with every feature. None counts the
// connections of an endpoint.
func Offers(a service.Algorithm) bool { return a != service.LeastConnections }

// Offers implements portal.Writer.
func (w *Writer) Offers(a service.Algorithm) bool {
	if known := w.offers[a]; known != nil {
		return known()
	}
	return Offers(a)
}

// knows tells whether the kernel takes rules that choose by an algorithm, which it needs for no other portals.
func (w *Writer) knows(a service.Algorithm) bool {
	conn, err := nfnl.Dial() // the Writer's is in use
	if err != nil {
		return false
	}
	for _, served := range w.tables {
		k := &kernelTable{conn, nft.NewTable(served.rules.family, w.opts.Table)}
		trial := nft.Chain{Name: "trial", Hook: nft.At("filter", "output", 0),
			Rules: []nft.Rule{turn(served.rules.family, a, 0, 2)}}
		err = errors.Join(err, k.try(feature{chain: trial}))
	}
	return errors.Join(err, conn.Close()) == nil
}
