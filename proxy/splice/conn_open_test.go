package splice

import (
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// checkedOwner runs posted functions at once, at a time of the test's, and notes the steps.
type checkedOwner struct {
	idleOwner
	now          *time.Duration
	steps        *[]Step
	keepalives   map[record.Side]Keepalive
	unresponsive map[record.Side]time.Duration
	inFlight     *bool
}

func (o checkedOwner) Post(next func(time.Duration) Step) { *o.steps = append(*o.steps, next(*o.now)) }

func (o checkedOwner) SetKeepalive(of record.Side, k Keepalive) { o.keepalives[of] = k }

func (o checkedOwner) InFlight() bool { return *o.inFlight }

func (o checkedOwner) Unresponsive(of record.Side, t time.Duration) bool {
	return o.unresponsive[of] >= t
}

func newCheckedOwner() checkedOwner {
	return checkedOwner{
		now: new(time.Duration), steps: new([]Step), keepalives: map[record.Side]Keepalive{},
		unresponsive: map[record.Side]time.Duration{}, inFlight: new(bool),
	}
}

// checked is an open connection under a policy, at second 1, with its owner.
func checked(t *testing.T, p service.Policy) (*Core, *Conn, checkedOwner) {
	t.Helper()
	c, o := carrying(t, 1), newCheckedOwner()
	conn := c.Moving().openConns()[0]
	*o.now = time.Second
	conn.owner, conn.life.entry.began = o, *o.now
	conn.life.entry.plan = newPlan(&View{Port: &service.Port{Policy: p}}, conn.life.entry.plan.defaults)
	conn.life.entry.front.plan.Store(conn.life.entry.plan)
	conn.Moved(*o.now, false)
	return c, conn, o
}

// remove has the only endpoint go, or come back, and the core look.
func remove(c *Core, conn *Conn, gone bool) {
	removeUnseen(conn, gone)
	c.removals.check(&c.Registry)
}

// removeUnseen is remove before the core looks.
func removeUnseen(conn *Conn, gone bool) {
	view := conn.life.entry.plan.View
	if !gone {
		view.Endpoints = []service.Endpoint{{Addr: conn.life.entry.endpoint.Load().Addr, Serving: true}}
	}
	conn.life.entry.front.Retarget(&view)
}

func TestKeepaliveFor(t *testing.T) {
	for deadPeer, want := range map[time.Duration]Keepalive{
		service.DefaultDeadPeer: {time.Minute, 15 * time.Second, 8},
		15 * time.Second:        {5 * time.Second, 5 * time.Second, 2},
		16 * time.Second:        {6 * time.Second, 6 * time.Second, 2},
		time.Nanosecond:         {time.Second, time.Second, 2},
		1000 * time.Hour:        {32767 * time.Second, 32767 * time.Second, 2},
	} {
		if got := KeepaliveFor(deadPeer); got != want {
			t.Errorf("%s: %+v, want %+v", deadPeer, got, want)
		}
	}
}

// The host of an endpoint that went is given less time, whatever becomes of its connections, and the usual time again
// when it is back.
func TestRemovalShortensDeadPeer(t *testing.T) {
	c, conn, o := checked(t, service.Policy{})
	remove(c, conn, true)
	if all := c.Snapshot(); len(all) != 1 || !all[0].Removed {
		t.Errorf("shown as %+v", all)
	}
	if got := o.keepalives[record.Endpoint]; got != KeepaliveFor(removedDeadPeer) || len(o.keepalives) != 1 {
		t.Errorf("keepalive after the removal: %v", o.keepalives)
	}
	*o.now += removedDeadPeer
	if s := conn.Expired(*o.now); s.Kind != StepWait || s.Until != *o.now+removedDeadPeer/3 {
		t.Errorf("a host that answers: %+v", s)
	}
	remove(c, conn, false)
	if o.keepalives[record.Endpoint] != DefaultKeepalive() || conn.Until(*o.now) >= 0 {
		t.Errorf("the endpoint is back: %+v, next look at %s", o.keepalives, conn.Until(*o.now))
	}
	remove(c, conn, true)
	o.unresponsive[record.Endpoint] = removedDeadPeer
	*o.now += removedDeadPeer
	if s := conn.Expired(*o.now); s.Kind != StepEnd || conn.life.result.ended.Outcome != record.OutcomeEndpointLost {
		t.Errorf("a host that does not answer: %+v, %+v", s, conn.life.result.ended)
	}
}

// An endpoint that is back when the time of its connection is up keeps it, also where the core did not look yet; and if
// it goes again then its time begins again.
func TestEndpointIsBackUnseen(t *testing.T) {
	const after = 800 * time.Millisecond
	for _, do := range []service.RemovedAction{service.ResetConnections, service.CloseWhenIdle} {
		c, conn, o := checked(t, service.Policy{Removed: service.RemovedEndpoint{Do: do, After: after}})
		remove(c, conn, true)
		removeUnseen(conn, false)
		*o.now += after
		s := conn.Expired(*o.now)
		if s.Kind == StepEnd || conn.goneAt > 0 || (connMember{conn}).live().Removed {
			t.Fatalf("%v: it is back: %+v", do, s)
		}
		if o.keepalives[record.Endpoint] != DefaultKeepalive() {
			t.Errorf("%v: keepalive of one that is back: %+v", do, o.keepalives)
		}
		conn.Moved(*o.now, false)
		remove(c, conn, true)
		if s := conn.Expired(*o.now + quietTime - 1); s.Kind == StepEnd {
			t.Fatalf("%v: gone again: %+v", do, s)
		}
		s = conn.Expired(*o.now + after)
		if s.Kind != StepEnd || conn.life.result.ended.Outcome != record.OutcomeEndpointRemoved {
			t.Errorf("%v: at the end of its time: %+v", do, s)
		}
	}
}

// noticingOwner calls posted in place of posted functions.
type noticingOwner struct {
	idleOwner
	posted func()
}

func (o noticingOwner) Post(func(time.Duration) Step) { o.posted() }

// An endpoint that goes while it is noted to be back is noted to be gone in the end: the other side, which may look at
// that moment, sees that noted still.
func TestEndpointGoesWhileItIsBack(t *testing.T) {
	c, conn, _ := checked(t, service.Policy{})
	remove(c, conn, true)
	removeUnseen(conn, false)
	posts := 0
	conn.owner = noticingOwner{posted: func() {
		posts++
		removeUnseen(conn, true)
	}}
	conn.open().checkEndpoint()
	if !conn.gone.Load() || posts != 2 {
		t.Errorf("noted as gone: %t, after %d posts", conn.gone.Load(), posts)
	}
}

// A shorter timeout of the Service stays.
func TestRemovalDoesNotLengthenDeadPeer(t *testing.T) {
	c, conn, o := checked(t, service.Policy{DeadPeer: 3 * time.Second})
	remove(c, conn, true)
	if len(o.keepalives) != 0 || conn.open().deadPeer() != 3*time.Second {
		t.Errorf("keepalive %v, %s", o.keepalives, conn.open().deadPeer())
	}
}

// However short a timeout is set, it costs no more than a look a second, and gives a host the time to answer.
func TestShortestDeadPeer(t *testing.T) {
	_, conn, o := checked(t, service.Policy{DeadPeer: time.Nanosecond})
	for range 10 {
		until := conn.Until(*o.now)
		if until < *o.now+time.Second {
			t.Fatalf("looked at at %s, and again %s", *o.now, until)
		}
		*o.now = until
	}
	o.unresponsive[record.Client] = leastDeadPeer - 1
	if s := conn.Expired(*o.now); s.Kind != StepWait {
		t.Errorf("%+v, %+v", s, conn.life.result.ended)
	}
}

// The peers of a connection that falls silent are checked once, unless its policy has a timeout: that has a timer.
func TestSilentPeersAreChecked(t *testing.T) {
	for _, own := range []time.Duration{0, time.Hour} {
		c, conn, o := checked(t, service.Policy{DeadPeer: own})
		fell := conn.life.entry.lastMoved()
		for at := fell; at < fell+10*silentPeriod; at += silentPeriod {
			checkSilent(&c.Registry, at, at+silentPeriod)
		}
		if checks := len(*o.steps); own == 0 && checks != 1 || own > 0 && checks != 0 {
			t.Errorf("%s: asked %d times", own, checks)
		}
		o.unresponsive[record.Client] = silentTime
		checkSilent(&c.Registry, fell+silentTime-1, fell+silentTime)
		if own == 0 && conn.life.result.ended.Outcome != record.OutcomeClientLost {
			t.Errorf("record %+v", conn.life.result.ended)
		}
	}
}

// A moment is quiet when the client has its answer and nothing is under way.
func TestQuiet(t *testing.T) {
	const age = time.Minute
	old := service.Policy{MaxAge: service.Age{Time: age}}
	for name, c := range map[string]struct {
		edit  func(*Conn, checkedOwner)
		quiet bool
	}{
		"silent":         {func(*Conn, checkedOwner) {}, true},
		"held":           {func(c *Conn, _ checkedOwner) { c.life.entry.traffic.FromEndpoint.Add(1) }, false},
		"in the kernel":  {func(_ *Conn, o checkedOwner) { *o.inFlight = true }, false},
		"just moved":     {func(c *Conn, o checkedOwner) { c.Moved(*o.now-quietTime/2, false) }, false},
		"asked":          {func(c *Conn, o checkedOwner) { c.Moved(*o.now-clientQuietTime/2, true) }, false},
		"asked long ago": {func(c *Conn, o checkedOwner) { c.Moved(*o.now-clientQuietTime-1, true) }, true},
		"half-closed":    {func(c *Conn, o checkedOwner) { c.EOF(record.Client, *o.now-time.Second) }, false},
	} {
		_, conn, o := checked(t, old)
		*o.now += age
		c.edit(conn, o)
		s := conn.Expired(*o.now)
		if quiet := s.Kind == StepEnd; quiet != c.quiet {
			t.Errorf("%s: %+v", name, s)
		} else if quiet && (s.Reset || conn.life.result.ended.Outcome != record.OutcomeMaxAge) {
			t.Errorf("%s: %+v, %+v", name, s, conn.life.result.ended)
		} else if !quiet && s.Kind == StepWait && s.Until <= *o.now {
			t.Errorf("%s: looked at again at once", name)
		}
	}
}

// Without such a policy a connection has no timer, as before.
func TestNoTimerByDefault(t *testing.T) {
	_, conn, o := checked(t, service.Policy{})
	if until := conn.Until(*o.now); until >= 0 {
		t.Errorf("looked at at %s", until)
	}
}

// The cost of a change of endpoints where there are many connections: all are looked at, once for many changes.
func BenchmarkLookForRemoved(b *testing.B) {
	c := carrying(b, many)
	f := c.Moving().openConns()[0].life.entry.front
	for b.Loop() {
		c.removals.note(f)
		c.removals.check(&c.Registry)
	}
}
