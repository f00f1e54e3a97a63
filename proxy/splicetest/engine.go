package splicetest

import (
	"strings"

	"github.com/portald/portald/proxy/splice"
)

// Engine is an engine under test.
type Engine struct {
	// Open is passed to splice.New. Each call makes an engine of its own.
	Open func(*splice.Core) (splice.Engine, error)
	// Can names the optional features that this engine has on this system.
	Can Capability
}

// Capability is a set of abilities that not every engine has.
type Capability uint

// The abilities.
const (
	UrgentData      Capability = 1 << iota // TCP urgent data is passed on as such
	ClientAddresses                        // sockets to endpoints are bound to the client's address: AddressTransparent
	Interfaces                             // Options.IsLocal gets the interface that a client came in by
	SourcePorts                            // Options.SourcePorts are used, and used again early
	LocalPorts                             // a host without a free UDP port is a shortage that a record names
	Marks                                  // Options.Mark is set on packets to endpoints
	Inheritance                            // Options.Listen is used
	FailedPorts                            // the record has our own address of dials that failed
	Undelivered                            // the record of a broken connection tells what was read and not delivered
	Refusals                               // a closed port is noticed of UDP, and another endpoint gets the datagram
	TCPInfo                                // the kernel tells what it knows of a TCP socket
	ResetsAfterEnd                         // a reset is noticed of a side whose stream has ended, before it is sent to
	Handover                               // a successor goes on with connections and sessions
	DeadPeers                              // a peer that does not acknowledge bytes is noticed by the dead-peer timeout
	Delivers                               // the kernel tells when what was sent has arrived
	Drops                                  // datagrams that a receive buffer had no room for are counted
)

var capabilityNames = []string{"UrgentData", "ClientAddresses", "Interfaces", "SourcePorts", "LocalPorts", "Marks",
	"Inheritance", "FailedPorts", "Undelivered", "Refusals", "TCPInfo", "ResetsAfterEnd", "Handover", "DeadPeers",
	"Delivers", "Drops"}

// String names the abilities of the set.
func (c Capability) String() string {
	var names []string
	for i, name := range capabilityNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
