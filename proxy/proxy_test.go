package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// plane records what it is asked for.
type plane struct {
	mu    sync.Mutex
	calls []string
	fail  int   // so many of the next calls fail
	bad   error // what an audit finds

	disturbed bool          // there is a sign of it
	audits    time.Duration // what one takes
	audited   int           // how many there were

	lasts time.Duration // from the first sweep on, until there is something to sweep
	due   time.Time     // when there is

	again   chan<- string
	synced  []Sync
	queued  bool // and not synced since
	damages []Damage
}

func (p *plane) note(call string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
	if p.fail > 0 {
		p.fail--
		return errors.New("not today")
	}
	return nil
}

func (p *plane) Sync(_ context.Context, c []service.Change) error {
	return p.note(fmt.Sprint("sync ", len(c)))
}
func (p *plane) WritesNoRule(c service.Change) bool {
	return c.Port != nil && len(c.Port.Endpoints) > 0 && c.Port.Endpoints[0].Addr.Port() == ruleless
}
func (p *plane) Resync(_ context.Context, all []*service.Port) error {
	return p.note(fmt.Sprint("resync ", len(all)))
}
func (p *plane) Audit(context.Context) error {
	time.Sleep(p.audits)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.bad
	p.bad = nil
	p.audited++
	return err
}
func (p *plane) Disturbed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.disturbed
}

func (p *plane) Sweep(context.Context) (time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := time.Now(); {
	case p.lasts == 0:
		return time.Time{}, nil
	case p.due.IsZero():
		p.due = now.Add(p.lasts)
	case !now.Before(p.due):
		p.calls = append(p.calls, fmt.Sprint("sweep after ", now.Sub(p.due.Add(-p.lasts))))
		p.due, p.lasts = time.Time{}, 0
		if p.fail > 0 {
			p.fail--
			return time.Time{}, errors.New("not today")
		}
	}
	return p.due, nil
}

func (p *plane) tell(s Sync) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = append(p.synced, s)
	p.queued = false
}

func (p *plane) queue(time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued = true
}

func (p *plane) damage(d Damage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.damages = append(p.damages, d)
}

// damaged is the damage that the loop told of since it was asked last.
func (p *plane) damaged() []Damage {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.damages = nil }()
	return p.damages
}

// took forgets what was asked for so far.
func (p *plane) took() {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

// sign sets whether there is a sign of damage.
func (p *plane) sign(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disturbed = is
}

// auditCount is how many audits there were.
func (p *plane) auditCount() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.audited
}

func (p *plane) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued
}

// told has the reports of the loop.
func (p *plane) told() []Sync {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.synced
}

// why fails unless the last resync says such a cause.
func (p *plane) why(t *testing.T, begins string) {
	t.Helper()
	all := p.told()
	if last := all[len(all)-1]; !last.Full || !strings.HasPrefix(last.Why, begins) {
		t.Errorf("told why: %q, want %q", last.Why, begins)
	}
}

func set(s *service.Store, name, addr string) {
	s.Set(service.Name{Namespace: "shop", Name: name}, []*service.Port{{
		Name:      service.PortName{Namespace: "shop", Name: name, Protocol: inet.TCP},
		Endpoints: []service.Endpoint{{Addr: netip.MustParseAddrPort(addr)}},
	}})
}

// running starts a loop in a bubble, whose clock is the test's.
func running(t *testing.T, p *plane, store *service.Store) Calls {
	log := logrus.New()
	log.SetOutput(io.Discard)
	again := make(chan string)
	l := &Loop{Store: store, Dataplane: p, Sweeper: p, Log: log, Again: again, MinSync: time.Second,
		AuditPeriod: time.Minute, SignPeriod: 500 * time.Millisecond, Calls: make(Calls)}
	l.Watcher.Synced, l.Watcher.Queued, l.Watcher.Damaged = p.tell, p.queue, p.damage
	p.again = again
	ctx, cancel := context.WithCancel(t.Context())
	synced, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx, synced)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
	if len(p.calls) != 0 {
		t.Errorf("%v before the source was synced", p.calls)
	}
	close(synced)
	synctest.Wait()
	return l.Calls
}

func (p *plane) set(fail int, bad error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail, p.bad = fail, bad
}

func (p *plane) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if fmt.Sprint(p.calls) != fmt.Sprint(want) {
		t.Errorf("calls %v, want %v", p.calls, want)
	}
	p.calls = nil
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		set(store, "a", "10.0.0.1:1")
		running(t, p, store)
		p.expect(t, "resync 1")

		set(store, "a", "10.0.0.2:1")
		p.expect(t, "sync 1") // at once
		set(store, "a", "10.0.0.3:1")
		set(store, "b", "10.0.0.3:1")
		p.expect(t)
		time.Sleep(time.Second) // what came within the least time goes together
		p.expect(t, "sync 2")
	})
}

func TestLoopMakesFailuresGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		running(t, p, store)
		p.expect(t, "resync 0")
		p.set(3, nil)
		set(store, "a", "10.0.0.1:1")
		time.Sleep(10 * time.Second)
		p.expect(t, "sync 1", "resync 1", "resync 1", "resync 1")
		p.why(t, "the last try had failed: sync 1 service ports: ")
		set(store, "a", "10.0.0.2:1")
		p.expect(t, "sync 1")
	})
}

func TestLoopAudits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		running(t, p, store)
		p.expect(t, "resync 0")
		time.Sleep(90 * time.Second)
		p.expect(t)
		p.set(0, errors.New("chain PORTALD-SERVICES is gone"))
		time.Sleep(time.Minute)
		p.expect(t, "resync 0")
		p.why(t, whyChanged)
	})
}

// Things that end by themselves end at their time, with no change and before any audit; a failure is made good by a
// resync.
func TestLoopSweeps(t *testing.T) {
	for _, fail := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			store, p := service.NewStore(), &plane{}
			running(t, p, store)
			p.expect(t, "resync 0")
			p.mu.Lock()
			p.lasts = 10 * time.Second
			p.mu.Unlock()
			set(store, "a", "10.0.0.1:1")
			p.expect(t, "sync 1")
			time.Sleep(9 * time.Second)
			p.set(fail, nil)
			time.Sleep(3 * time.Second)
			want := []string{"sweep after 10s", "resync 1"}
			p.expect(t, want[:1+fail]...)
			time.Sleep(30 * time.Second)
			p.expect(t)
		})
	}
}

func TestLoopAppliesAnewWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		running(t, p, store)
		p.expect(t, "resync 0")
		p.again <- "settings"
		p.expect(t, "resync 0")
		p.why(t, "settings")
	})
}

// The loop reports exactly what was applied, and no time of a change is lost to a failure.
func TestLoopTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		running(t, p, store)
		cart, at := service.Name{Namespace: "shop", Name: "cart"}, time.Unix(7, 0)
		port := func(created int64) []*service.Port {
			return []*service.Port{{Name: service.PortName{Namespace: "shop", Name: "cart"}, Created: time.Unix(created, 0)}}
		}
		store.Set(cart, port(1), at)
		time.Sleep(10 * time.Second)
		p.set(2, nil)
		store.Set(cart, port(2), at.Add(1))
		time.Sleep(time.Millisecond)
		store.Set(cart, port(3), at.Add(2))
		time.Sleep(time.Minute)
		synctest.Wait()
		told := p.told()
		if len(told) != 3 {
			t.Fatalf("told of %d syncs, want three", len(told))
		}
		first, second := told[1], told[2]
		if first.Full || len(first.Changes) != 1 || fmt.Sprint(first.Triggered) != fmt.Sprint([]time.Time{at}) {
			t.Errorf("of a change: %+v", first)
		}
		if !second.Full || len(second.Ports) != 1 ||
			fmt.Sprint(second.Triggered) != fmt.Sprint([]time.Time{at.Add(1), at.Add(2)}) {
			t.Errorf("after failures: %+v", second)
		}
	})
}

// The loop reports that a change or a resync waits, whatever requested it: health must not take the state for applied.
func TestLoopTellsThatSomethingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		running(t, p, store)
		for what, ask := range map[string]func(){
			"a change": func() { set(store, "a", time.Now().Format("10.0.0.1:05")) },
			"an audit": func() {
				p.set(3, errors.New("chain PORTALD-SERVICES is gone"))
				time.Sleep(time.Minute)
			},
			"settings": func() { p.again <- "settings" },
		} {
			p.set(3, nil)
			ask()
			synctest.Wait()
			if !p.waits() {
				t.Errorf("%s: it is not told that something waits", what)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if p.waits() {
				t.Errorf("%s: all was applied, and yet something waits", what)
			}
		}
	})
}

// ruleless is the port of endpoints whose changes write no rule.
const ruleless = 7

// A change that writes no rule is applied at once, while others wait until rules may be written again; and it does not
// make those wait longer.
func TestRulelessChangesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		running(t, p, store)
		p.expect(t, "resync 0")
		set(store, "a", "10.0.0.1:7")
		p.expect(t, "sync 1")
		set(store, "b", "10.0.0.1:80") // the ruleless one before it has begun no pause
		p.expect(t, "sync 1")
		set(store, "b", "10.0.0.2:80")
		p.expect(t)
		set(store, "a", "10.0.0.2:7")
		p.expect(t, "sync 1")
		set(store, "c", "10.0.0.1:80")
		set(store, "b", "10.0.0.3:7") // newer, and ruleless: the older one is not applied later
		p.expect(t, "sync 1")
		time.Sleep(time.Second)
		p.expect(t, "sync 1") // c
		time.Sleep(time.Second)
		p.expect(t)
	})
}
