//go:build linux

package main

import (
	"slices"
	"sync"
	"time"
)

// kind is the cause of a failed operation.
type kind string

const (
	refused     kind = "refused"         // the connect was
	noConnect   kind = "connect timeout" // no answer to the connect
	wasReset    kind = "reset"           // an established connection was reset or ended before the answer
	noAnswer    kind = "answer timeout"  // an established connection did not answer
	wrongAnswer kind = "protocol"        // something else answered
	other       kind = "other"
)

var allKinds = []kind{refused, noConnect, wasReset, noAnswer, wrongAnswer, other}

// connecting tells whether the client got no connection.
func (k kind) connecting() bool { return k == refused || k == noConnect }

// So many failures are kept, with the end of the program's output.
const (
	keptFailures = 5
	keptBytes    = 250
)

// failure is one failed operation.
type failure struct {
	At   time.Time `json:"at"`
	Kind kind      `json:"kind"`
	Said string    `json:"said"`
}

// tally counts operations of one client. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	took     []time.Duration // of those that went well
	failed   map[kind]int
	failures []failure // the first ones
}

// good counts an operation that went well.
func (t *tally) good(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took)
}

// bad counts one that did not.
func (t *tally) bad(began time.Time, k kind, said string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = map[kind]int{}
	}
	t.failed[k]++
	if len(t.failures) < keptFailures {
		t.failures = append(t.failures, failure{began.UTC(), k, said[max(0, len(said)-keptBytes):]})
	}
}

// result has the counts of one client of a proxy.
type result struct {
	Proxy      string `json:"proxy"`
	Client     string `json:"client"`
	Operations int    `json:"operations"`
	Failed     int    `json:"failed"`
	// Connects are those of Failed that got no connection. A proxy that accepts before it connects hides them from
	// clients: instead, here are connections that it could not lead to any endpoint.
	Connects int          `json:"failedConnects"`
	Retried  int          `json:"retried"` // connections for which portald tried more than one endpoint
	Kinds    map[kind]int `json:"kinds,omitempty"`
	P50      float64      `json:"p50Milliseconds"` // of operations that went well
	P99      float64      `json:"p99Milliseconds"`
	Max      float64      `json:"maxMilliseconds"`
	First    []failure    `json:"firstFailures,omitempty"`
}

func (t *tally) result() result {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.took)
	r := result{Operations: len(t.took), Kinds: t.failed, First: t.failures,
		P50: quantile(t.took, 0.5), P99: quantile(t.took, 0.99), Max: quantile(t.took, 1)}
	for k, n := range t.failed {
		r.Failed += n
		if k.connecting() {
			r.Connects += n
		}
	}
	r.Operations += r.Failed
	return r
}

// quantile is of sorted times, in milliseconds: the smallest that is not less than this part of them.
func quantile(sorted []time.Duration, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(part*float64(len(sorted))+0.999999) - 1
	return float64(sorted[min(max(i, 0), len(sorted)-1)].Microseconds()) / 1e3
}
