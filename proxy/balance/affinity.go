package balance

import (
	"container/list"
	"net/netip"
	"time"
)

// How affinity bound a client: the second result of Pick.
const (
	Fresh = "new"   // bound now
	Hit   = "hit"   // bound before
	Moved = "moved" // bound again, because the endpoint it was bound to failed
)

// defaultMaxBindings is how many connections Linux lets conntrack track on a machine with more than 4 GB
// (nf_conntrack_max, by nf_conntrack_core.c): more clients than that cannot be connected through a node at one time.
const defaultMaxBindings = 1 << 18

// bindings holds which client is bound to which endpoint, least recently used last. Its user's lock guards it.
type bindings struct {
	timeout  time.Duration // since the last use; 0 = affinity is off
	max      int
	epoch    time.Time
	byClient map[netip.Addr]*list.Element
	order    list.List // of *binding, most recently used first
	stale    int       // those that point to an endpoint that is gone
}

// binding is one client's. One that points to an endpoint that is gone is as good as none; it stays until its client
// comes back or its time is up, so that an endpoint can go without a walk over all clients.
type binding struct {
	client netip.Addr
	to     *member
	used   time.Duration // since epoch
}

func (t *bindings) init(max int) {
	t.max = max
	if max <= 0 {
		t.max = defaultMaxBindings
	}
	t.epoch = time.Now()
	t.clear()
}

func (t *bindings) on() bool           { return t.timeout > 0 }
func (t *bindings) live() int          { return len(t.byClient) - t.stale }
func (t *bindings) now() time.Duration { return time.Since(t.epoch) }

// clear forgets all. A cleared map would keep its size, so there is a new one.
func (t *bindings) clear() {
	for el := t.order.Front(); el != nil; el = el.Next() {
		el.Value.(*binding).to.bound = 0
	}
	t.byClient = map[netip.Addr]*list.Element{}
	t.order.Init()
	t.stale = 0
}

// find returns the endpoint the client is bound to, nil when there is none that still counts.
func (t *bindings) find(client netip.Addr, now time.Duration) *member {
	el := t.byClient[client]
	if el == nil {
		return nil
	}
	if b := el.Value.(*binding); !b.to.is(gone) && !t.expired(b, now) {
		return b.to
	}
	return nil
}

func (t *bindings) expired(b *binding, now time.Duration) bool { return now-b.used >= t.timeout }

// bind makes e the client's endpoint, used now. The least recently used binding makes room when there is none.
func (t *bindings) bind(client netip.Addr, e *member, now time.Duration) {
	el := t.byClient[client]
	if el == nil {
		if len(t.byClient) >= t.max {
			t.remove(t.order.Back())
		}
		el = t.order.PushFront(&binding{client: client})
		t.byClient[client] = el
	} else {
		t.release(el.Value.(*binding))
		t.order.MoveToFront(el)
	}
	b := el.Value.(*binding)
	b.to, b.used = e, now
	e.bound++
}

// release takes the binding off its endpoint.
func (t *bindings) release(b *binding) {
	b.to.bound--
	if b.to.is(gone) {
		t.stale--
	}
}

func (t *bindings) remove(el *list.Element) {
	b := t.order.Remove(el).(*binding)
	t.release(b)
	delete(t.byClient, b.client)
}

// expire removes up to n of those that count no more, from the least recently used on.
func (t *bindings) expire(now time.Duration, n int) {
	for ; n > 0; n-- {
		el := t.order.Back()
		if el == nil {
			return
		}
		if b := el.Value.(*binding); !b.to.is(gone) && !t.expired(b, now) {
			return
		}
		t.remove(el)
	}
}

// forget makes all bindings to e stale, which must be gone.
func (t *bindings) forget(e *member) {
	t.stale += int(e.bound)
	if t.live() == 0 {
		t.clear()
	}
}
