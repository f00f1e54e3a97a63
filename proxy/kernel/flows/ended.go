package flows

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Ended counts the records of a service port's flows since the daemon started.
type Ended struct {
	// Wants is what has a record now: RecordsOff if nothing is recorded.
	Wants                    service.Records
	Ended, Failed            uint64 // Failed: with another outcome than ok
	FromClient, FromEndpoint uint64 // bytes
	Endpoints                map[netip.AddrPort]EndpointEnded
}

// EndpointEnded counts the records of an endpoint's flows.
type EndpointEnded struct {
	Ended       uint64
	Failures    uint64    // the endpoint was not reached, the flow was reset, or (UDP) nothing came back
	Unreached   int       // the last so many dials failed; only where all flows have records
	LastError   string    // why the last one failed, empty if none did
	LastFailure time.Time // when
}

// ended counts for one known service port, across its changes.
type ended struct {
	mu    sync.Mutex // guards what follows
	total Ended
}

// count counts a record, of an endpoint that the service port has (listed) there too.
func (e *ended) count(r *record.Record, listed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := &e.total
	t.Ended++
	t.FromClient += uint64(max(0, r.BytesFromClient))
	t.FromEndpoint += uint64(max(0, r.BytesFromEndpoint))
	if !r.Outcome.Well() {
		t.Failed++
	}
	if !listed {
		return
	}
	if t.Endpoints == nil {
		t.Endpoints = map[netip.AddrPort]EndpointEnded{}
	}
	one := t.Endpoints[r.Endpoint.Addr]
	one.observe(r)
	t.Endpoints[r.Endpoint.Addr] = one
}

func (e *EndpointEnded) observe(r *record.Record) {
	e.Ended++
	if e.Unreached++; r.Outcome != record.OutcomeDialFailed {
		e.Unreached = 0
	}
	switch r.Outcome {
	case record.OutcomeDialFailed, record.OutcomeReset, record.OutcomeUnanswered:
		e.Failures++
		if e.LastError, e.LastFailure = r.Error, r.Start.Add(r.Duration); e.LastError == "" {
			e.LastError = string(r.Outcome)
		}
	}
}

// keepOnly forgets the endpoints that a service port no longer has.
func (e *ended) keepOnly(k *known) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.total.Endpoints, func(at netip.AddrPort, _ EndpointEnded) bool {
		_, is := k.listed(at)
		return !is
	})
}

func (e *ended) copied() Ended {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.total
	out.Endpoints = maps.Clone(out.Endpoints)
	return out
}

// Ended returns what was recorded of a service port. Any goroutine may call it.
func (r *Recorder) Ended(name service.PortName) Ended {
	r.index.mu.RLock()
	k, defaults := r.index.ports[name], r.index.policy
	r.index.mu.RUnlock()
	if k == nil {
		return Ended{Wants: service.RecordsOff}
	}
	out := k.ended.copied()
	if out.Wants = k.Policy.Or(defaults).KernelRecords; !r.recording.Load() {
		out.Wants = service.RecordsOff
	}
	return out
}
