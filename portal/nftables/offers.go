package nftables

import (
	"errors"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

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
		k := &kernelTable{conn, nft.NewTable(served.rules.Family, w.opts.Table)}
		trial := nft.Chain{Name: "trial", Hook: nft.At("filter", "output", 0),
			Rules: []nft.Rule{layout.Turn(served.rules.Family, a, 0, 2)}}
		err = errors.Join(err, k.try(feature{chain: trial}))
	}
	return errors.Join(err, conn.Close()) == nil
}
