// Package reach tells what this host knows of its way to an address, and asks an address once whether it answers.
package reach

import (
	"net/netip"
	"time"
)

// Path is what this host knows of its way to an address, from its routes and its neighbour table. The zero value is for
// an address, or a system, of which nothing is known.
type Path struct {
	NoRoute   string     // why no route leads there; empty: one does
	Here      bool       // the address is one of this host
	Via       netip.Addr // the next hop; invalid: the address itself is on a link
	Neighbor  State      // of the next hop, or of the address itself
	Confirmed time.Time  // when that neighbour answered last; zero: it is not known
}

// State is the state of an entry of the neighbour table, as ip neigh shows it; empty: there is none.
type State string

// The states of a neighbour that is asked for its link address, and does not answer.
const (
	Incomplete State = "INCOMPLETE"
	Failed     State = "FAILED"
)

// Silent tells whether the neighbour does not answer.
func (p *Path) Silent() bool { return p.Neighbor == Failed || p.Neighbor == Incomplete }

// Up tells whether the host of the address answered after a moment, which says nothing of its ports.
func (p *Path) Up(after time.Time) bool {
	return p.Here || !p.Via.IsValid() && !p.Silent() && !p.Confirmed.IsZero() && !p.Confirmed.Before(after)
}
