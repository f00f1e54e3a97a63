package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

var (
	seed     = flag.Uint64("seed", 1, "of the schedule of TestChaos; 0: another each time")
	duration = flag.Duration("duration", 10*time.Second, "how long faults happen in TestChaos")
)

// schedule says which one it is.
func schedule(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed=%d -duration=%s", *seed, *duration)
}

// alone is the name of the node where there is no cluster.
const alone = "here"

// Portald is killed, restarted, stopped for a moment and succeeded by the next, while rules are wiped, Services change
// their modes, endpoints and addresses, and others come and go. Nothing happens to connections and datagrams but what
// one of these faults may cost; afterwards everything is served and nothing is left behind.
func TestChaos(t *testing.T) {
	schedule(t)
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		worlds{newWorld(b, m, placesOf(0), alone, manifests{b})}.suffer(b.Context(), nil)
	})
}

// worlds are the nodes of a cluster, or one alone.
type worlds []*world

// suffer has faults happen to each of them, and others to all, while clients are served.
func (all worlds) suffer(ctx context.Context, ofAll []fault) {
	for _, w := range all {
		w.flip(nil, &event{}) // some rules are written for the first Service of a mode, and stay
		w.settle()
	}
	before := make([]holdings, len(all))
	for i, w := range all {
		before[i] = w.has()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	for _, w := range all {
		w.load(ctx, &clients)
	}
	all.beFaulty(ofAll)
	for _, w := range all {
		w.awaitServed()
	}
	stop()
	clients.Wait()
	for _, w := range all {
		w.judge()
		w.settle()
	}
	for i, w := range all {
		w.compare(before[i])
		w.leave()
	}
}

// beFaulty has all faults happen, each kind as a number of dice says.
func (all worlds) beFaulty(ofAll []fault) {
	var kinds sync.WaitGroup
	number, until := uint64(0), time.Now().Add(*duration)
	begin := func(to worlds, faults []fault) {
		number++
		dice := rand.New(rand.NewPCG(*seed, number))
		kinds.Go(func() { to.happen(dice, faults, until) })
	}
	for _, w := range all {
		begin(worlds{w}, w.changes())
		begin(worlds{w}, w.ends())
	}
	if len(ofAll) > 0 {
		begin(all, ofAll)
	}
	kinds.Wait()
}

// happen has one fault after the other happen, with pauses: none, or up to a second.
func (all worlds) happen(dice *rand.Rand, faults []fault, until time.Time) {
	for time.Now().Before(until) && !all[0].Failed() {
		f := faults[dice.IntN(len(faults))]
		e := &event{what: f.what, began: time.Now()}
		for _, w := range all {
			w.note(e)
		}
		f.happens(dice, e)
		e.over = time.Now()
		if dice.IntN(4) > 0 {
			time.Sleep(time.Duration(dice.Int64N(int64(time.Second))))
		}
	}
}

// judge fails the test for each failure of a client that nothing excuses.
func (w *world) judge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	excused, shown := 0, 0
	for _, f := range w.failures {
		if why := w.excuse(f); why != "" {
			excused++
			continue
		}
		if shown++; shown > 20 {
			w.Fail()
			continue
		}
		w.Errorf("%s\n%s%s", f, w.eventsBetween(f.began.Add(-3*time.Second), f.ended.Add(time.Second)), w.recordsOf(f))
	}
	w.Logf("%s: %d connections, %d streams and %d datagrams; %d events; %d failures that they excuse, %d others",
		w.mode.Name, w.requests.Load(), w.streamed.Load(), w.said.Load(), len(w.events), excused, shown)
	if w.requests.Load() == 0 || w.streamed.Load() == 0 || w.said.Load() == 0 {
		w.Error("a kind of client did nothing")
	}
	if w.Failed() {
		w.Logf("all events:\n%s", w.eventsBetween(time.Time{}, time.Now()))
	}
	for _, r := range w.daemon.Records() {
		if r.Outcome == "not_a_portal" && !w.takesOver(r.Time) && !w.leadsAstray(r.Time) {
			w.Errorf("a record of a client that came where no portal leads, at %s: %s\n%s", clock(r.Time), r,
				w.eventsBetween(r.Time.Add(-5*time.Second), r.Time.Add(time.Second)))
		}
	}
}

// leave ends portald, which takes all rules with it.
func (w *world) leave() {
	w.daemon.Signal(interrupt)
	if code := w.daemon.Exit(); code != 0 {
		w.Errorf("portald ends with code %d", code)
	}
	if left := w.Ruleset(); strings.Contains(strings.ToLower(left), "portald") {
		w.Errorf("rules are left:\n%s", left)
	}
}
