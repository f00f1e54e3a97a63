package splicetest

import (
	"io"
	"strings"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func retryScenarios() []scenario {
	return []scenario{
		{name: "RetryPastTheDead", run: retryPastTheDead},
		{name: "SingleSilentEndpoint", run: singleSilentEndpoint},
		{name: "SingleRefusingEndpoint", run: singleRefusingEndpoint},
		{name: "NoEndpointEverAnswers", run: noEndpointEverAnswers},
		{name: "NoRetries", run: noRetries},
		{name: "DialsStallNoOther", run: dialsStallNoOther},
		{name: "RetryBudget", run: retryBudget},
		{name: "RetryBudgetOfRounds", run: retryBudgetOfRounds},
		{name: "OwnEndpointTwice", run: ownEndpointTwice},
	}
}

// timeouts is a policy with these timeouts of dials, in milliseconds.
func timeouts(ms ...time.Duration) splice.Options {
	var p service.Policy
	for _, m := range ms {
		p.ConnectTimeouts = append(p.ConnectTimeouts, m*time.Millisecond)
	}
	return splice.Options{Policy: p}
}

func refusedIn(a record.Attempt) bool { return strings.Contains(a.Err, "refused") }

func retryPastTheDead(t *trial) {
	dead, slow, live := t.refusing(), silent(t), echoServer(t)
	d := t.start(timeouts(500, 500, 10_000))
	wantEcho(t, dialTCP(t, d.tcp(dead, slow, live).at), "x")
	rec := d.record()
	a := rec.Attempts
	if len(a) != 3 || a[0].Endpoint != dead || a[1].Endpoint != slow || rec.Endpoint.Addr != live {
		t.Fatalf("attempts %+v", a)
	}
	if !refusedIn(a[0]) || a[1].Err != "timeout" || a[2].Err != "" {
		t.Errorf("attempts %+v", a)
	}
	if a[1].Took < 475*time.Millisecond || a[1].Took > 3*time.Second {
		t.Errorf("the second attempt may take 500 ms, and took %s", a[1].Took)
	}
	if rec.Endpoint.Pod == "" {
		t.Error("the record does not name the pod")
	}
}

// singleSilentEndpoint: an endpoint without others that does not answer has another, longer try.
func singleSilentEndpoint(t *trial) {
	d := t.start(timeouts(100, 200))
	rec := wantDialFailed(t, d, d.tcp(silent(t)), 300*time.Millisecond)
	if len(rec.Attempts) != 2 {
		t.Errorf("record %+v", rec)
	}
}

// singleRefusingEndpoint: an endpoint without others that refuses is dialled again for as long as dials may take.
func singleRefusingEndpoint(t *trial) {
	d := t.start(timeouts(500, 1000))
	rec := wantDialFailed(t, d, d.tcp(t.refusing()), 1500*time.Millisecond)
	if !refusedIn(rec.Attempts[0]) || rec.Attempts[0].Times < 3 {
		t.Errorf("record %+v", rec)
	}
}

// noEndpointEverAnswers: all endpoints refuse. The connection ends after about the time that dials may take.
func noEndpointEverAnswers(t *trial) {
	d := t.start(timeouts(300, 500))
	rec := wantDialFailed(t, d, d.tcp(t.refusing(), t.refusing(), t.refusing()), 800*time.Millisecond)
	if len(rec.Attempts) < 3 {
		t.Errorf("record %+v", rec)
	}
}

// wantDialFailed expects a reset because no endpoint answers, and not before the time for dials is up.
func wantDialFailed(t *trial, d *dataPath, f *front, after time.Duration) *record.Record {
	t.Helper()
	wantReset(t, f.at)
	rec := d.record()
	if rec.Outcome != record.OutcomeDialFailed || rec.Connect >= 0 || rec.Duration < after || rec.Duration > longest {
		t.Errorf("record %+v", rec)
	}
	return rec
}

// noRetries: with a single timeout a refusal is the end.
func noRetries(t *trial) {
	d := t.start(timeouts(10_000))
	wantReset(t, d.tcp(t.refusing()).at)
	rec := d.record()
	if rec.Outcome != record.OutcomeDialFailed || len(rec.Attempts) != 1 || rec.Attempts[0].Times != 1 {
		t.Errorf("record %+v", rec)
	}
}

// dialsStallNoOther: clients that wait for an endpoint that does not answer delay no other.
func dialsStallNoOther(t *trial) {
	d := t.start(timeouts(5000))
	f := d.tcp(silent(t), echoServer(t))
	dialTCP(t, f.at) // waits five seconds
	t.eventually("the first client's dial has begun", func() bool { return len(f.ring.given()) == 1 })
	begin := time.Now()
	c := dialTCP(t, f.at)
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil || time.Since(begin) > 3*time.Second {
		t.Errorf("an answer came after %s, %v", time.Since(begin), err)
	}
}

// retryBudget: without a budget no further dial is made, and the connection waits for one as long as dials may take. A
// dial that works costs none of it.
func retryBudget(t *trial) {
	d := t.start(timeouts(300, 500))
	f := d.tcp(t.refusing(), t.refusing())
	f.ring.bound(1)
	rec := wantDialFailed(t, d, f, 800*time.Millisecond)
	if n := len(f.ring.given()); n != 2 || len(rec.Attempts) != 2 {
		t.Errorf("%d dials, record %+v", n, rec)
	}
	live := echoServer(t)
	f.ring.set(t.refusing(), live)
	f.ring.bound(1)
	for range 4 {
		wantEcho(t, dialTCP(t, f.at), "x")
		if rec := d.record(); rec.Endpoint.Addr != live {
			t.Errorf("record %+v", rec)
		}
	}
}

// retryBudgetOfRounds: a round that finds no endpoint to dial takes nothing of the budget.
func retryBudgetOfRounds(t *trial) {
	const budget = 3
	d := t.start(timeouts(100, 100, 100, 100))
	f := d.tcp(t.refusing())
	f.ring.bound(budget)
	rec := wantDialFailed(t, d, f, 400*time.Millisecond)
	if n := len(f.ring.given()); n != 1+budget || int(rec.Attempts[0].Times) != n {
		t.Errorf("%d dials, record %+v", n, rec)
	}
}

// ownEndpointTwice: a client's own endpoint that refuses is dialled again a moment later, before another is.
func ownEndpointTwice(t *trial) {
	d := t.start(timeouts(5000, 5000, 5000))
	own, live := t.refusing(), echoServer(t)
	f := d.tcp(own, live)
	f.ring.keep()
	wantEcho(t, dialTCP(t, f.at), "x")
	rec := d.record()
	if a := rec.Attempts; len(a) != 2 || a[0].Endpoint != own || a[0].Times != 2 || rec.Endpoint.Addr != live ||
		rec.Connect < 10*time.Millisecond {
		t.Errorf("record %+v", rec)
	}
}
