// Package waitqueue is the queue in which connections and sessions of one Service wait for an endpoint, of all its
// ports and both families, in the order in which they came. When there are endpoints they get their turns one after the
// other: the next one picks once the one before has. One that dials keeps its place until it is connected.
//
//	evicted := queue.Enter(place, most) // one more waits; too many: evicted.Of.Evicted() is due
//	queue.Wake(port)                    // endpoints of a port have come: the first one's Turn is called
//	queue.Pass(place)                   // it has picked: the next one's turn
//	queue.Leave(place)                  // it is connected, or gives up
package waitqueue

import (
	"container/heap"
	"sync"
	"time"
)

// Waiter is a connection or session that waits. Its methods return at once.
type Waiter interface {
	Turn()    // has it look for an endpoint, soon, and pass its turn on when it has picked: see Queue.Pass
	Evicted() // ends it, soon: too many of its Service wait
}

// Client is a client of a Service, with its places in the queue. The zero Client has none.
type Client struct {
	// Guarded by the queue's mu.
	oldest, newest *Place
	places         int
	index          int // in Queue.clients
}

// Place is the position of a connection or session that waits.
type Place struct {
	Of     Waiter
	Client *Client
	Port   any           // whose endpoints it waits for: see Wake
	Since  time.Duration // since when it waits

	// Guarded by the queue's mu.
	all, own    links // in the queue, and among the places of its client
	queued, due bool
}

// links connect a place with its neighbours in a list, which is in the order of Since.
type links struct{ prev, next *Place }

// Queue has the places of a Service. Safe for concurrent use. The zero Queue is empty.
type Queue struct {
	mu          sync.Mutex
	first, last *Place // guarded by mu, as what follows
	n           int
	clients     clients
	due         []*Place // are to have a turn, in this order
	turn        *Place   // has it
	needed      time.Duration
	told        bool // needed is when NeedsPods was true
}

// Enter adds one at its place, and returns the one that is removed if there are more than most now: that which has
// waited the longest, of the client that has the most.
func (q *Queue) Enter(p *Place, most int) (evicted *Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.insert(p)
	if q.n <= most {
		return nil
	}
	evicted = q.clients[0].oldest
	q.remove(evicted)
	return evicted
}

func (q *Queue) insert(p *Place) {
	p.queued = true
	insert(p, &q.first, &q.last, ofAll)
	q.n++
	c := p.Client
	insert(p, &c.oldest, &c.newest, ofOwn)
	if c.places++; c.places == 1 {
		heap.Push(&q.clients, c)
	} else {
		heap.Fix(&q.clients, c.index)
	}
}

// Leave removes one. It may be called more than once.
func (q *Queue) Leave(p *Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(p)
}

func (q *Queue) remove(p *Place) {
	if !p.queued {
		return
	}
	p.queued = false
	remove(p, &q.first, &q.last, ofAll)
	q.n--
	c := p.Client
	remove(p, &c.oldest, &c.newest, ofOwn)
	if c.places--; c.places == 0 {
		heap.Remove(&q.clients, c.index)
	} else {
		heap.Fix(&q.clients, c.index)
	}
	if q.turn == p {
		q.nextTurn()
	}
}

// Wake gives a turn to those that wait for endpoints of a port.
func (q *Queue) Wake(port any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := q.first; p != nil; p = p.all.next {
		if p.Port == port && !p.due {
			p.due = true
			q.due = append(q.due, p)
		}
	}
	if q.turn == nil {
		q.nextTurn()
	}
}

// Pass ends the turn of one that has picked.
func (q *Queue) Pass(p *Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turn == p {
		q.nextTurn()
	}
}

func (q *Queue) nextTurn() {
	for q.turn = nil; q.turn == nil && len(q.due) > 0; q.due = q.due[1:] {
		p := q.due[0]
		if p.due = false; p.queued {
			q.turn = p
			p.Of.Turn()
		}
	}
	if len(q.due) == 0 {
		q.due = nil
	}
}

// Len is how many wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// needEvery is the shortest time between two calls of NeedsPods that are true.
const needEvery = 5 * time.Second

// NeedsPods tells, every five seconds at most, that somebody who begins to wait now is to say that pods are needed.
func (q *Queue) NeedsPods(now time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.told && now < q.needed+needEvery {
		return false
	}
	q.needed, q.told = now, true
	return true
}
