package iptables

import (
	"slices"

	"github.com/portald/portald/portal/service"
)

// Offers tells whether rules of a variant can choose endpoints by an algorithm. For round robin, the rule of the first
// endpoint takes each n-th flow, the rule of the next each (n-1)-th of the others, by counters of their own. The legacy
// variant loads all rules again at each change of any, and counters begin again: the first endpoint would get more than
// its share. No match hashes addresses for any number of endpoints, or counts their connections.
func Offers(legacy bool, a service.Algorithm) bool {
	return a == service.AlgorithmDefault || a == service.Random || a == service.RoundRobin && !legacy
}

// Offers implements portal.Writer.
func (w *Writer) Offers(a service.Algorithm) bool {
	return Offers(slices.ContainsFunc(w.hosts, func(h *host) bool { return !h.nft }), a)
}
