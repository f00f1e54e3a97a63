package splice

import (
	"slices"
	"testing"
	"time"
)

// queuer is what waits, and notes its turns.
type queuer struct {
	name  string
	turns *[]string
}

func (q queuer) endpointsChanged() { *q.turns = append(*q.turns, q.name) }
func (q queuer) crowdedOut()       {}

// Turns come one after the other, in the order of the waits' beginnings, to those of the front; who leaves has none,
// and holds up no other.
func TestTurnsOfThoseThatWait(t *testing.T) {
	var q waitQueue
	var turns []string
	mine, others := &Front{}, &Front{}
	all := map[string]*wait{}
	enter := func(name string, since time.Duration, f *Front) (crowdedOut *wait) {
		w := &wait{of: queuer{name, &turns}, client: &holder{}, front: f, since: since}
		all[name] = w
		return q.enter(w, 5)
	}
	want := func(names ...string) {
		t.Helper()
		if !slices.Equal(turns, names) {
			t.Errorf("turns %v, want %v", turns, names)
		}
	}
	enter("b", 2, mine)
	enter("x", 3, others)
	enter("d", 4, mine)
	enter("c", 3, mine) // a predecessor's
	enter("a", 1, mine)
	q.wake(mine)
	want("a")
	q.pass(all["c"]) // it is not its turn
	q.wake(mine)
	want("a")
	q.leave(all["a"])
	want("a", "b")
	q.leave(all["c"])
	q.pass(all["b"])
	want("a", "b", "d")
	q.pass(all["d"]) // it has found nothing, and stays
	q.wake(mine)
	want("a", "b", "d", "b")
}

// The one that has waited the longest makes room.
func TestTheOldestMakesRoom(t *testing.T) {
	var q waitQueue
	var turns []string
	f := &Front{}
	for i := range 4 {
		w := &wait{of: queuer{string(rune('a' + i)), &turns}, client: &holder{}, front: f, since: time.Duration(i)}
		switch out := q.enter(w, 3); {
		case i < 3 && out != nil:
			t.Errorf("%v was crowded out", out.of)
		case i == 3 && (out == nil || out.of.(queuer).name != "a"):
			t.Errorf("%v was crowded out, want a", out)
		}
	}
	if q.len() != 3 {
		t.Errorf("%d wait", q.len())
	}
}

// The client with the most makes room, and others keep their places.
func TestGreedyClientMakesRoom(t *testing.T) {
	const most = 90
	var q waitQueue
	f, greedy := &Front{}, &holder{}
	enter := func(client *holder, since int) (crowdedOut *wait) {
		return q.enter(&wait{of: queuer{}, client: client, front: f, since: time.Duration(since)}, most)
	}
	for i := range most / 2 {
		enter(&holder{}, i)
	}
	for i := range 10 * most {
		if out := enter(greedy, most+i); out != nil && out.client != greedy {
			t.Fatalf("client %d of others was crowded out", out.since)
		}
	}
	for i := range most / 4 {
		if out := enter(&holder{}, 11*most+i); out == nil || out.client != greedy {
			t.Fatalf("%+v makes room", out)
		}
	}
	if q.len() != most {
		t.Errorf("%d wait", q.len())
	}
}

func TestNeedsAreToldSeldom(t *testing.T) {
	var q waitQueue
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {time.Second, false}, {needEvery, true}, {needEvery + 1, false}} {
		if q.tells(c.at) != c.want {
			t.Errorf("at %s: told %t", c.at, !c.want)
		}
	}
}
