//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is a way in which an endpoint does not serve.
type fault string

// Words are in docs/retries.md.
const (
	killed    fault = "kill"      // its processes are killed, and others serve at the end
	blackHole fault = "blackhole" // no packet comes in or goes out
	refuses   fault = "refuse"    // a SYN is answered by a reset; open connections go on
	slow      fault = "slow"      // the accept queue is full: few SYNs are answered
	frozen    fault = "freeze"    // its processes are stopped: the kernel accepts, and nobody answers
	resets    fault = "reset"     // a connection is accepted and reset, at once or at the first bytes
)

var allFaults = []fault{killed, blackHole, refuses, slow, resets, frozen}

// usualFaults are all but frozen: no proxy that knows nothing of the protocol can tell an endpoint that accepts and
// thinks from one that will never answer.
var usualFaults = []fault{killed, blackHole, refuses, slow, resets}

// event is one fault of one endpoint, from a time after the start.
type event struct {
	At       time.Duration `json:"atNanoseconds"`
	For      time.Duration `json:"forNanoseconds"`
	Endpoint int           `json:"endpoint"`
	Fault    fault         `json:"fault"`
}

func (e event) end() time.Duration { return e.At + e.For }

func (e event) String() string {
	return fmt.Sprintf("%6.2f s  endpoint %d  %-9s for %.2f s", e.At.Seconds(), e.Endpoint, e.Fault, e.For.Seconds())
}

// When events are, and how long.
const (
	before   = time.Second             // until the first
	after    = 2 * time.Second         // from the end of the last to the end of the run
	shortest = time.Second             // event
	longest  = 4 * time.Second         // event
	settle   = 1500 * time.Millisecond // from the end of an event until its endpoint counts as alive
	meanGap  = 1500 * time.Millisecond // between the beginnings of events
	massive  = 0.15                    // of all events hit all endpoints but one
)

// schedule draws events for a run. The same arguments give the same events. At each moment at least one of the
// endpoints has had no fault for the time to settle.
func schedule(seed uint64, endpoints int, faults []fault, span time.Duration) []event {
	r := rand.New(rand.NewPCG(seed, 0))
	free := make([]time.Duration, endpoints) // when each may have its next fault
	deal := deck(r, faults)
	var all []event
	for at := before; ; at += gap(r) {
		left := span - after - at
		if left < shortest {
			return all
		}
		for range hits(r, endpoints) {
			idle := alive(free, at)
			if len(idle) < 2 {
				break // the last one lives
			}
			e := event{At: at, For: min(between(r, shortest, longest), left), Endpoint: idle[r.IntN(len(idle))],
				Fault: deal()}
			free[e.Endpoint] = e.end() + settle
			all = append(all, e)
		}
	}
}

// deck returns what deals faults: each of them once, before any comes again.
func deck(r *rand.Rand, faults []fault) func() fault {
	var left []fault
	return func() fault {
		if len(left) == 0 {
			left = slices.Clone(faults)
			r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		f := left[0]
		left = left[1:]
		return f
	}
}

// gap is exponential, in whole milliseconds.
func gap(r *rand.Rand) time.Duration {
	d := time.Duration(r.ExpFloat64() * float64(meanGap))
	return min(d, 3*meanGap).Truncate(time.Millisecond)
}

// hits is how many endpoints fail together.
func hits(r *rand.Rand, endpoints int) int {
	if r.Float64() < massive {
		return endpoints - 1
	}
	return 1
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(r.Int64N(int64(high-low)))).Truncate(time.Millisecond)
}

// alive lists endpoints that are free at a time.
func alive(free []time.Duration, at time.Duration) []int {
	var idle []int
	for i, from := range free {
		if from <= at {
			idle = append(idle, i)
		}
	}
	return idle
}

// parseFaults reads names with commas; empty means the usual ones.
func parseFaults(names string) ([]fault, error) {
	if names == "" {
		return usualFaults, nil
	}
	var chosen []fault
	for name := range strings.SplitSeq(names, ",") {
		if !slices.Contains(allFaults, fault(name)) {
			return nil, fmt.Errorf("no fault %q: know %v", name, allFaults)
		}
		chosen = append(chosen, fault(name))
	}
	return chosen, nil
}
