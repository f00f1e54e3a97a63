package nftables

import (
	"errors"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/service"
)

// isRandom tells whether an algorithm is that of plain portals.
func isRandom(a service.Algorithm) bool { return a == service.AlgorithmDefault || a == service.Random }

// choice is the number of the endpoint that an algorithm chooses among n, which are two at least. Endpoints are in the
// order of their addresses on each node, and with the same seed a client has the same one everywhere.
func (f family) choice(by service.Algorithm, n int) expression {
	switch by {
	case service.RoundRobin:
		return counter(uint32(n))
	case service.SourceHash:
		return f.clientHash(uint32(n))
	}
	return numgen(uint32(n), 0)
}

// turn is what the rule of endpoint i among n matches, where each has a rule of its own: a share of what the rules
// before it left. The first rule's counter takes each n-th flow, the next one's each (n-1)-th of the others: so they
// take turns.
func (f family) turn(by service.Algorithm, i, n int) rule {
	switch {
	case i == n-1:
		return nil
	case by == service.SourceHash:
		return rule{is(f.clientHash(uint32(n)), i)}
	}
	return rule{is(f.choice(by, n-i), 0)}
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
		t := &table{rules: rules{family: served.family}, conn: conn, name: w.opts.Table}
		trial := chain{name: "trial", hook: &hook{"filter", "output", 0}, rules: []rule{t.turn(a, 0, 2)}}
		err = errors.Join(err, t.try(feature{chain: trial}))
	}
	return errors.Join(err, conn.Close()) == nil
}
