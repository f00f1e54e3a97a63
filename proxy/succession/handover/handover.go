// Package handover passes the sockets of a daemon, and what is known of each connection, to its successor on the same
// host: over a Unix socket, in batches that the successor acknowledges, so that each connection belongs to one of the
// two at every moment, whichever of them dies. It knows the messages and their order, and nothing of how connections
// are carried.
//
//	successor                     predecessor
//	Hello            ──────▶
//	                 ◀──────      Welcome, or Refusal
//	  (makes itself ready)
//	Begin            ──────▶      changes nothing from now on
//	                 ◀──────      Sockets, Turns …, Begun
//	Working …        ──────▶      each second
//	  (listens there too)
//	Serving          ──────▶      accepts nothing from now on
//	                 ◀──────      a batch: Conns, Sessions, Records, Changes
//	Taken            ──────▶
//	                 ◀──────      Go, or Abort: the predecessor goes on with it
//	                 …
//	                 ◀──────      Done
//
// The end of the connection without an Abort means that the predecessor is dead: what it has sent belongs to the
// successor.
package handover

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// The versions of what is passed on. A successor that has another Protocol is refused. With another State it gets the
// sockets alone, and the predecessor serves what is open until it ends.
const (
	Protocol = 1
	State    = 1
)

// A successor that writes its rules says each workingEvery that it is at it. The predecessor, which changes nothing
// meanwhile, goes on by itself after silence.
const (
	workingEvery = time.Second
	silence      = 5 * time.Second
)

// step bounds each answer of the other side. Slow is added where it may take its time: a predecessor until it changes
// nothing any more, for the sync that is under way, and then for the dials that are.
const (
	step = 10 * time.Second
	slow = 30 * time.Second
)

// Errors of a hand-over.
var (
	ErrNone       = errors.New("no daemon hands over here")
	ErrHeld       = errors.New("another daemon has the lock of the node")
	ErrAborted    = errors.New("the predecessor goes on")
	ErrDied       = errors.New("the predecessor has ended")
	ErrFull       = errors.New("the keeper may not open more descriptors")
	ErrSilent     = errors.New("the keeper does not answer")
	ErrUnexpected = errors.New("unexpected message")
	ErrTruncated  = errors.New("a message did not fit, or this process has no room for its descriptors")
)

// Identity is who hands over and to whom.
type Identity struct {
	Installation string // equal to the predecessor's: it tells apart the portalds of a host
	Version      string // of the program
	PID          int    // as the process itself sees it
	Instance     string // of the process: no other has the same; empty: one that does not tell
}

// String names the process for people.
func (i Identity) String() string { return fmt.Sprintf("portald %s (process %d)", i.Version, i.PID) }

// Hello is the first message of a successor.
type Hello struct {
	Identity
	Protocol, State int
	Waits           bool // it takes what waits for an endpoint too
	Works           bool // it says so each second until it serves, if the predecessor knows what that means

	// To a keeper.
	Settles bool     // it says when it carries what it has claimed
	Carries []string // whose connections it has claimed so far, by their Instance
}

// Welcome is the answer to Hello.
type Welcome struct {
	Identity
	Protocol, State int
	Works           bool // it knows what Working means
}

// Refusal ends it: the predecessor goes on.
type Refusal struct{ Why string }

// Begin requests the sockets.
type Begin struct {
	Files int // how many descriptors the successor has room for
}

// Kind says what a Socket is for.
type Kind string

// The kinds.
const (
	Front    Kind = "front"  // of a service port: see splice.Front
	Server   Kind = "server" // of the daemon itself, such as health
	NodeLock Kind = "lock"   // no socket, but what TryLock returns
)

// Socket is one that listens or is bound. A descriptor belongs to it.
type Socket struct {
	Kind    Kind
	Name    service.PortName // of a Front
	Address netip.AddrPort   // of a Front
	Server  string           // of a Server: the address as it was configured
}

// Sockets are some of all.
type Sockets struct{ Sockets []Socket }

// Turn is the state of one balancer.
type Turn struct {
	Name   service.PortName
	Family inet.Family
	Scope  service.Scope
	State  balance.Saved
}

// Turns are some of all, and some of Begun.Drained.
type Turns struct {
	Turns   []Turn
	Drained []Drained
}

// Drained is an endpoint that gets no new connections.
type Drained struct {
	Name     service.PortName
	Endpoint netip.AddrPort
	Forced   bool
}

// Begun ends the answer to Begin.
type Begun struct {
	LastID  uint64 // of a record
	Drained []Drained
}

// Inheritance has the sockets and state of the balancers with which a successor begins.
type Inheritance struct {
	Begun
	Sockets []Socket
	Files   []int // of Sockets, in their order; they are the receiver's
	Turns   []Turn
}

// Serving tells that the successor has written its rules, and at which of Sockets, in their order, it listens too.
type Serving struct{ Taken []bool }

// Batch has connections, sessions, records or changes that are passed on and acknowledged together.
type Batch struct {
	Conns    []*splice.SavedConn
	Sessions []*splice.SavedSession
	At       netip.AddrPort // of the UDP socket of Sessions
	Records  Records
	Changes  []changes.Change // that the predecessor noticed
	Turns    []Turn           // with what has changed since Begun
	Resume   *Socket          // a UDP socket all of whose sessions were passed on
}

// Records are of connections that have ended.
type Records []*record.Record

// files is how many descriptors belong to the batch.
func (b *Batch) files() int {
	n := 0
	for _, s := range b.Sessions {
		if !s.Waits {
			n++
		}
	}
	for _, c := range b.Conns {
		n += c.Files()
	}
	return n
}

// Done tells that all was passed on.
type Done struct {
	Left int64  // connections that the predecessor serves until they end
	Of   string // by a keeper: the Instance of who has left it
	Open bool   // by a keeper: nothing was passed on yet, as it still has a connection to who is claimed of
}
