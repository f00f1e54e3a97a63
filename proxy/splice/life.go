package splice

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/portald/portald/proxy/service"
)

// life is what a TCP connection and a UDP session have in common: it is admitted, dials one endpoint after the other
// until one is reached, and ends with one Record. It is embedded by value and begun in place, so that it costs no
// allocation of its own. One goroutine at a time owns it; now is the time on the engine's clock.
//
// It decides and does nothing itself: the steps that it returns are what its owner has to do next.
type life struct {
	front   *Front
	plan    *plan
	scope   service.Scope // which endpoints are for the client
	counted bool          // among the live ones of the front
	rounds  bool          // when all endpoints have failed they are dialled again after a pause
	dialing bool          // the last attempt has no result yet
	removed bool          // the endpoint of that attempt was taken away meanwhile
	lease   Lease         // of the current attempt, and then of the connection
	asked   question      // that the host has not answered yet
	retry   *retries      // nil: no dial has failed
	seen    *plan         // the plan that dials went by: a newer one may bring endpoints
	began   time.Duration
	dialled time.Duration // when the current attempt began
	last    time.Duration // when bytes last moved
	traffic Traffic
	mu      sync.Mutex // guards what Live shows of rec after it was registered
	rec     Record
	attempt [1]Attempt // room for the usual single attempt
}

// step is what comes next for a connection or session.
type step struct {
	kind     stepKind
	outcome  Outcome        // of stepRefuse
	endpoint netip.AddrPort // of stepDial
	as       netip.Addr     // of stepDial: the client's address if the endpoint is to see it, else zero
	ask      func() bool    // of stepAsk
	until    time.Duration  // of stepWait
}

type stepKind uint8

const (
	stepDial   stepKind = iota // connect to the endpoint, then call connected or failed
	stepAsk                    // put the question, which may block, on another goroutine, then call answered
	stepWait                   // call next at that time, or as soon as the front has other endpoints
	stepRefuse                 // end with that outcome
)

// question is what the host is asked about a client.
type question uint8

const (
	noQuestion question = iota
	isInside            // Options.Inside
	returns             // Options.Returns
)

// begin makes a life of a client's that begins now, by the present plan of the front.
func (f *life) begin(front *Front, client netip.AddrPort, now time.Duration) {
	f.front, f.plan, f.began, f.last = front, front.present(), now, now
	f.seen = f.plan
	f.rec = Record{
		ID: front.core.nextID.Add(1), Start: time.Now(), Service: front.name, Client: client,
		Connect: -1, FirstByte: -1, Attempts: f.attempt[:0],
	}
}

func (f *life) clientAddr() netip.Addr { return f.rec.Client.Addr() }

// admit lets a client in that dialled one of this service port's frontends, from where that is allowed, as long as
// there are not too many. Anything else came straight at the proxy port, or was led here by somebody else. The outcome
// is empty for a client that is admitted, which counts among the live ones of the front until uncount.
func (f *life) admit(dst netip.AddrPort) Outcome {
	f.rec.OriginalDst = dst
	exposed, ok := f.plan.exposure(dst)
	if !ok {
		return OutcomeNotPortal
	}
	f.rec.Portal = exposed.Kind
	if !f.plan.admits(f.clientAddr(), exposed.Kind) {
		return OutcomeSourceRange
	}
	f.counted = true
	if !f.front.join(f.plan) {
		f.uncount()
		return OutcomeLimit
	}
	return ""
}

// uncount has the front no longer count a client that was admitted. It may be called more than once.
func (f *life) uncount() {
	if f.counted {
		f.counted = false
		f.front.leave()
	}
}

// located tells whether it matters where an admitted client is. If so, start wants the interface that it came in by.
func (f *life) located() bool {
	_, depends := f.plan.scope(f.rec.Portal)
	return depends
}

// start finds out which endpoints are for an admitted client, and begins to dial.
func (f *life) start(iface int, now time.Duration) step {
	var depends bool
	if f.scope, depends = f.plan.scope(f.rec.Portal); !depends {
		return f.next(now)
	}
	o, client := &f.front.core.opts, f.clientAddr()
	inside, known := o.InsideKnown(client, iface)
	if !known {
		return f.ask(isInside, func() bool { return o.Inside(client, iface) })
	}
	return f.locate(inside, now)
}

// locate goes on once it is known whether the client is inside the cluster.
func (f *life) locate(inside bool, now time.Duration) step {
	if inside {
		f.scope = service.ClusterScope
	}
	return f.next(now)
}

func (f *life) ask(q question, put func() bool) step {
	f.asked = q
	return step{kind: stepAsk, ask: put}
}

// answered goes on with the answer to the question of a step.
func (f *life) answered(yes bool, now time.Duration) step {
	q, removed := f.asked, f.removed
	f.asked, f.removed = noQuestion, false
	switch {
	case q == isInside:
		return f.locate(yes, now)
	case removed:
		return f.failed(errRemoved, Enough, now)
	default:
		return f.dial(yes)
	}
}

// waitsForHost tells whether a question has no answer yet.
func (f *life) waitsForHost() bool { return f.asked != noQuestion }

// next begins another attempt, as long as there is one to make in this round.
func (f *life) next(now time.Duration) step {
	if !f.retry.left(len(f.plan.policy.ConnectTimeouts)) {
		return f.exhausted(false, now)
	}
	if !f.pick() {
		return f.exhausted(true, now)
	}
	endpoint := f.lease.Endpoint
	f.dialled, f.dialing = now, true
	f.rec.Attempts = append(f.rec.Attempts, Attempt{Endpoint: endpoint, Times: 1})
	o, client, to := &f.front.core.opts, f.clientAddr(), endpoint.Addr()
	if f.plan.policy.ClientAddress != service.AddressTransparent {
		return f.dial(false)
	}
	asClient, known := o.ReturnsKnown(client, to)
	if !known {
		return f.ask(returns, func() bool { return o.Returns(client, to) })
	}
	return f.dial(asClient)
}

func (f *life) dial(asClient bool) step {
	s := step{kind: stepDial, endpoint: f.current().Endpoint}
	if asClient {
		s.as = f.clientAddr()
	}
	return s
}

// current is the attempt under way, or the last one that was.
func (f *life) current() *Attempt { return &f.rec.Attempts[len(f.rec.Attempts)-1] }

// pick asks for an endpoint that was not tried in this round. When all were, those that only did not answer in time may
// have another, longer try; those that refused may not.
func (f *life) pick() (ok bool) {
	client, picker := f.clientAddr(), f.front.pickers[f.scope]
	f.lease, ok = picker.Pick(client, f.retry.without())
	if !ok && f.retry.slow() {
		f.lease, ok = picker.Pick(client, f.retry.without())
	}
	f.rec.Affinity = f.lease.Affinity
	return ok
}

// exhausted ends a round of dials that all failed.
func (f *life) exhausted(allTried bool, now time.Duration) step {
	timeouts := f.plan.policy.ConnectTimeouts
	end := f.began + sum(timeouts)
	switch {
	case len(f.rec.Attempts) == 0:
		return step{kind: stepRefuse, outcome: OutcomeNoEndpoint}
	case !f.rounds, len(timeouts) == 1, f.retry.silent >= len(timeouts), now >= end:
		return step{kind: stepRefuse, outcome: OutcomeDialFailed}
	}
	return step{kind: stepWait, until: min(now+f.retry.next(allTried), end)}
}

// refreshed tells whether the front has another plan since the last dial, and if so has dials begin anew.
func (f *life) refreshed() bool {
	plan := f.front.present()
	if plan == f.seen {
		return false
	}
	f.seen = plan
	f.retry.anew()
	return true
}

// Errors of attempts that are not the kernel's.
var (
	errTimeout = errors.New("timeout")          // no answer in its time
	errGivenUp = errors.New("given up")         // whoever ended the connection did not wait for the answer
	errRemoved = errors.New("endpoint removed") // it was taken away before it was dialled
)

// Shortage is what this host lacked for a dial. The endpoint is not to blame.
type Shortage uint8

// The shortages.
const (
	Enough      Shortage = iota // none: it is the endpoint that failed
	NoPort                      // no local port is left towards this endpoint: another may be reached
	NoResources                 // every dial would fail alike
)

// failed ends the current attempt, or the one that had worked so far, and begins another, but without resources.
func (f *life) failed(err error, lack Shortage, now time.Duration) step {
	switch {
	case !f.dialing:
		f.lease.Ended(false, 0, 0) // what was sent is lost
	case lack != Enough, err == errRemoved:
		f.lease.Dialled(context.Canceled, now-f.dialled)
	default:
		f.lease.Dialled(err, now-f.dialled)
	}
	f.dialing = false
	if f.retry == nil {
		f.retry = &retries{}
	}
	f.retry.failed(f.current().Endpoint, err == errTimeout)
	f.attempted(err.Error(), now-f.dialled)
	f.rec.failed(err.Error(), now-f.dialled)
	if lack == NoResources {
		return step{kind: stepRefuse, outcome: OutcomeResources}
	}
	return f.next(now)
}

// dialEnds is when the current attempt has had its time.
func (f *life) dialEnds() time.Duration {
	return f.dialled + f.plan.policy.ConnectTimeouts[f.retry.place()]
}

// connected ends the current attempt: its endpoint is reached.
func (f *life) connected(now time.Duration) {
	f.dialing = false
	a := f.current()
	a.Took = now - f.dialled
	f.lease.Dialled(nil, a.Took)
	f.attempted("", a.Took)
	f.rec.Connect = now - f.began
	e := f.front.endpoint(f.plan, a.Endpoint)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rec.Endpoint = e
}

// firstByte notes that the endpoint has sent something.
func (f *life) firstByte(now time.Duration) { f.rec.FirstByte = now - f.began }

// report completes the record and hands it to the observer. It is called once, after all else.
func (f *life) report(by Side, how How, o Outcome, now time.Duration) {
	if f.dialing {
		f.dialing = false
		f.lease.Dialled(context.Canceled, now-f.dialled)
		f.attempted(errGivenUp.Error(), now-f.dialled)
		f.rec.failed(errGivenUp.Error(), now-f.dialled)
	}
	r, t := &f.rec, &f.traffic
	r.ClosedBy, r.How, r.Outcome, r.Duration = by, how, o, now-f.began
	r.BytesFromClient, r.BytesToEndpoint = t.FromClient.Load(), t.ToEndpoint.Load()
	r.BytesFromEndpoint, r.BytesToClient = t.FromEndpoint.Load(), t.ToClient.Load()
	broken := by == Endpoint && how != FIN
	f.lease.Ended(!broken, r.BytesToEndpoint, r.BytesFromEndpoint)
	f.observe()
}

// join counts a connection or session among the live ones of the front, until leave. False: it is one more than there
// may be.
func (f *Front) join(p *plan) bool {
	n, most := f.active.Add(1), p.policy.MaxConnections
	return most <= 0 || n <= int64(most)
}

// leave ends what join began.
func (f *Front) leave() { f.active.Add(-1) }
