package waitqueue

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

func (q queuer) Turn()    { *q.turns = append(*q.turns, q.name) }
func (q queuer) Evicted() {}

// Turns come one after the other, in the order of the waits' beginnings, to those of the front; who leaves has none,
// and holds up no other.
func TestTurnsOfThoseThatWait(t *testing.T) {
	var q Queue
	var turns []string
	mine, others := "mine", "others"
	all := map[string]*Place{}
	enter := func(name string, since time.Duration, f any) (evicted *Place) {
		w := &Place{Of: queuer{name, &turns}, Client: &Client{}, Port: f, Since: since}
		all[name] = w
		return q.Enter(w, 5)
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
	q.Wake(mine)
	want("a")
	q.Pass(all["c"]) // it is not its turn
	q.Wake(mine)
	want("a")
	q.Leave(all["a"])
	want("a", "b")
	q.Leave(all["c"])
	q.Pass(all["b"])
	want("a", "b", "d")
	q.Pass(all["d"]) // it has found nothing, and stays
	q.Wake(mine)
	want("a", "b", "d", "b")
}

// The one that has waited the longest makes room.
func TestTheOldestMakesRoom(t *testing.T) {
	var q Queue
	var turns []string
	f := "port"
	for i := range 4 {
		w := &Place{Of: queuer{string(rune('a' + i)), &turns}, Client: &Client{}, Port: f, Since: time.Duration(i)}
		switch out := q.Enter(w, 3); {
		case i < 3 && out != nil:
			t.Errorf("%v was crowded out", out.Of)
		case i == 3 && (out == nil || out.Of.(queuer).name != "a"):
			t.Errorf("%v was crowded out, want a", out)
		}
	}
	if q.Len() != 3 {
		t.Errorf("%d wait", q.Len())
	}
}

// The client with the most makes room, and others keep their places.
func TestGreedyClientMakesRoom(t *testing.T) {
	const most = 90
	var q Queue
	f, greedy := "port", &Client{}
	enter := func(client *Client, since int) (evicted *Place) {
		return q.Enter(&Place{Of: queuer{}, Client: client, Port: f, Since: time.Duration(since)}, most)
	}
	for i := range most / 2 {
		enter(&Client{}, i)
	}
	for i := range 10 * most {
		if out := enter(greedy, most+i); out != nil && out.Client != greedy {
			t.Fatalf("client %d of others was crowded out", out.Since)
		}
	}
	for i := range most / 4 {
		if out := enter(&Client{}, 11*most+i); out == nil || out.Client != greedy {
			t.Fatalf("%+v makes room", out)
		}
	}
	if q.Len() != most {
		t.Errorf("%d wait", q.Len())
	}
}

func TestNeedsAreToldSeldom(t *testing.T) {
	var q Queue
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {time.Second, false}, {needEvery, true}, {needEvery + 1, false}} {
		if q.NeedsPods(c.at) != c.want {
			t.Errorf("at %s: told %t", c.at, !c.want)
		}
	}
}
