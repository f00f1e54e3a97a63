package waitqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// queuer is a Waiter that notes its turns.
type queuer struct {
	name  string
	turns *[]string
}

func (q queuer) Turn()    { *q.turns = append(*q.turns, q.name) }
func (q queuer) Evicted() {}

// Turns come one after the other, in the order of the waits' beginnings, to the first ones; who leaves has none, and
// holds up no other.
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

// However many wait, and of however many clients, the one that makes room is the oldest of the client with the most.
func TestWhoMakesRoom(t *testing.T) {
	const most = 300
	rng := rand.New(rand.NewPCG(1, 2))
	var q Queue
	all := make([]*Client, 20)
	for i := range all {
		all[i] = &Client{}
	}
	waiting := map[*Place]bool{}
	for i := range 20 * most {
		p := &Place{Of: queuer{}, Client: all[rng.IntN(1+rng.IntN(len(all)))], Since: time.Duration(i)}
		waiting[p] = true
		if out := q.Enter(p, most); out != nil {
			count, oldest := map[*Client]int{}, map[*Client]*Place{}
			for w := range waiting {
				count[w.Client]++
				if o := oldest[w.Client]; o == nil || w.Since < o.Since {
					oldest[w.Client] = w
				}
			}
			for c, n := range count {
				if n > count[out.Client] || n == count[out.Client] && oldest[c].Since < out.Since {
					t.Fatalf("one of %d, since %d, makes room; another client has %d", count[out.Client], out.Since, n)
				}
			}
			if oldest[out.Client] != out {
				t.Fatal("one that is not the oldest of its client makes room")
			}
			delete(waiting, out)
		}
		for w := range waiting {
			if rng.IntN(3) == 0 {
				q.Leave(w)
				delete(waiting, w)
			}
			break
		}
		if q.Len() != len(waiting) {
			t.Fatalf("%d wait, not %d", q.Len(), len(waiting))
		}
	}
}

// BenchmarkEnterFull measures the cost of one more in a full queue.
func BenchmarkEnterFull(b *testing.B) {
	for _, most := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(most), func(b *testing.B) {
			var q Queue
			all := make([]*Client, most/2)
			for i := range all {
				all[i] = &Client{}
			}
			for i := range most + b.N {
				if i == most {
					b.ResetTimer()
				}
				q.Enter(&Place{Of: queuer{}, Client: all[i%len(all)], Since: time.Duration(i)}, most)
			}
		})
	}
}
