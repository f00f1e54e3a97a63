package proxy

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

var errGone = errors.New("chain PORTALD-SERVICES is gone")

// A sign that others changed rules is followed up long before the next audit is due, and damage made good at once.
func TestLoopFollowsSigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{}
		running(t, p, service.NewStore())
		p.expect(t, "resync 0")
		p.set(0, errGone)
		time.Sleep(2 * time.Second)
		p.expect(t) // without a sign nobody looks
		p.sign(true)
		time.Sleep(500 * time.Millisecond)
		p.expect(t, "resync 0")
		if told := p.damaged(); len(told) != 1 || told[0] != (Damage{errGone, 1, 0}) {
			t.Errorf("told of %+v", told)
		}
	})
}

// Others who change rules of their own all the time cost a twentieth of it.
func TestSignsCostLittle(t *testing.T) {
	for _, takes := range []time.Duration{0, 50 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := &plane{audits: takes, disturbed: true}
			running(t, p, service.NewStore())
			time.Sleep(50 * time.Second)
			n := p.auditCount()
			spent, most := time.Duration(n)*takes, 50*time.Second/signShare+takes
			if n == 0 || spent > most {
				t.Errorf("%d audits of %s in 50 s: %s, want at most %s", n, takes, spent, most)
			}
		})
	}
}

// Who changes our rules all the time is answered ever more slowly, until there is quiet.
func TestNoFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{disturbed: true}
		running(t, p, service.NewStore())
		p.expect(t, "resync 0")
		began := time.Now()
		wipe := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				p.set(0, errGone)
			}
			p.set(0, nil)
			synctest.Wait()
		}
		wipe(5 * time.Minute)
		var at []time.Duration
		for _, s := range p.told()[1:] {
			at = append(at, s.Start.Sub(began).Round(time.Second))
		}
		want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 62, 92, 122, 152, 182, 212, 242, 272}
		for i := range max(len(at), len(want)) {
			if i >= len(at) || i >= len(want) || at[i] < want[i]*time.Second || at[i] > (want[i]+8)*time.Second {
				t.Fatalf("repairs after %v, want about %d s", at, want)
			}
		}
		told := p.damaged()
		if last := told[len(told)-1]; last.Times < 10 || last.Wait == 0 {
			t.Errorf("told of %+v at last", last)
		}

		time.Sleep(2 * time.Minute)
		p.took()
		p.set(0, errGone)
		time.Sleep(500 * time.Millisecond)
		p.expect(t, "resync 0")
		if told := p.damaged(); len(told) != 1 || told[0].Times != 1 {
			t.Errorf("after quiet: told of %+v", told)
		}
	})
}

// Damage that waits for its repair is not audited again, and not repaired twice if everything was applied meanwhile.
func TestRepairThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{disturbed: true}
		running(t, p, service.NewStore())
		p.expect(t, "resync 0")
		for range 4 {
			p.set(0, errGone)
			time.Sleep(600 * time.Millisecond)
		}
		audited := p.auditCount()
		p.took()
		p.again <- "settings"
		p.expect(t, "resync 0")
		p.sign(false)
		time.Sleep(5 * time.Second)
		p.expect(t)
		if n := p.auditCount(); n != audited {
			t.Errorf("%d audits while a repair waited", n-audited)
		}
	})
}

// Repairs that take long are as rare as they are expensive.
func TestExpensiveRepairs(t *testing.T) {
	var r repairs
	now := time.Unix(0, 0)
	for n := range 6 {
		times, wait := r.damaged(now)
		if want := n + 1; times != want {
			t.Errorf("%d times, want %d", times, want)
		}
		now = now.Add(wait + 5*time.Second)
		if r.repaired(now, 5*time.Second); n > 1 && wait < 40*time.Second {
			t.Errorf("repair %d after %s", n, wait)
		}
		now = now.Add(100 * time.Millisecond)
	}
}
