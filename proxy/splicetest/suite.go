// Package splicetest is what every engine of proxy/splice must do, as one test suite over real sockets: retries,
// endings and their records, limits, drains, UDP sessions, shortages, leaks. It knows the public API of splice alone,
// and nothing of how an engine moves bytes.
package splicetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/proxy/splice"
)

// Engine is an engine under test.
type Engine struct {
	// Open is what splice.New takes. Each call makes an engine of its own.
	Open func(*splice.Core) (splice.Engine, error)
	// Can is what this engine is able to do on this system beyond what every engine must.
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
	Marks                                  // Options.Mark is set on what is sent to endpoints
	Inheritance                            // Options.Listen is used
	FailedPorts                            // the record has our own address of dials that failed
	Undelivered                            // the record of a broken connection tells what was read and not delivered
	Refusals                               // a closed port is noticed of UDP, and another endpoint gets the datagram
	TCPInfo                                // the kernel tells what it knows of a TCP socket
	ResetsAfterEnd                         // a reset is noticed of a side whose stream has ended, before it is sent to
	Handover                               // a successor goes on with connections and sessions
	DeadPeers                              // a peer that does not acknowledge bytes is noticed by the dead-peer timeout
	Delivers                               // the kernel tells when what was sent has arrived
)

var capabilityNames = []string{"UrgentData", "ClientAddresses", "Interfaces", "SourcePorts", "LocalPorts", "Marks",
	"Inheritance", "FailedPorts", "Undelivered", "Refusals", "TCPInfo", "ResetsAfterEnd", "Handover", "DeadPeers",
	"Delivers"}

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

// scenario is one test of the suite.
type scenario struct {
	name  string
	run   func(*trial)
	needs Capability
	scope scope
}

// scope is what a scenario shares with others while it runs.
type scope uint8

const (
	shared  scope = iota // runs beside other scenarios
	alone                // measures the process: no other scenario runs meanwhile
	process              // changes the process: runs in a child of its own
	network              // needs a network of its own: runs in a child in a network namespace of its own
)

// Run runs the suite, or with -short what of it needs neither privileges nor a second.
func Run(t *testing.T, e Engine) {
	ports, all := newPorts(), scenarios()
	if testing.Short() {
		all = slices.DeleteFunc(quickScenarios(), func(s scenario) bool { return s.scope != shared })
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			if lacks := s.needs &^ e.Can; lacks != 0 {
				t.Skip("this engine does not have:", lacks)
			}
			s.start(&trial{T: t, engine: e, ports: ports})
		})
	}
}

func (s scenario) start(t *trial) {
	switch {
	case s.scope == alone, isChild():
		s.run(t)
	case s.scope == shared:
		t.Parallel()
		s.run(t)
	default:
		t.Parallel()
		runChild(t, s.scope == network)
	}
}

func quickScenarios() []scenario {
	return slices.Concat(echoScenarios(), resetScenarios(), recordScenarios(), limitScenarios(), headerScenarios(),
		questionScenarios(), drainScenarios(), successorScenarios())
}

func scenarios() []scenario {
	return slices.Concat(echoScenarios(), halfCloseScenarios(), resetScenarios(), idleScenarios(), retryScenarios(),
		waitScenarios(), holdScenarios(), refusalScenarios(), drainScenarios(), recordScenarios(), policyScenarios(),
		limitScenarios(),
		shareScenarios(), headerScenarios(), questionScenarios(), scopeScenarios(), udpScenarios(), udpEndScenarios(),
		answerScenarios(), leavingScenarios(), leaseScenarios(), unreadScenarios(), wholeAnswerScenarios(),
		leakScenarios(), heldScenarios(),
		registryScenarios(), factScenarios(), tcpInfoScenarios(), blockedScenarios(),
		hedgeScenarios(), replayScenarios(), fairScenarios(), lastingScenarios(), togetherScenarios(),
		successorScenarios(),
		systemScenarios())
}
