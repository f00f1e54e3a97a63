// Package splice is a connection's life: accept, admit, pick, dial, splice, report. It carries TCP connections and UDP
// sessions from a listener to an endpoint that a Picker names, and reports one Record for each. It does not know how
// endpoints are chosen or who leads clients to its listeners, and it logs nothing.
package splice

import "net/netip"

// Picker chooses endpoints for one front. It is called on the data path by several goroutines: it must not block.
type Picker interface {
	// Pick returns an endpoint for the client that is not among tried as long as there is one, and how affinity bound
	// the client ("" without affinity). False: there is no endpoint left.
	Pick(client netip.Addr, tried []netip.AddrPort) (endpoint netip.AddrPort, affinity string, ok bool)
}
