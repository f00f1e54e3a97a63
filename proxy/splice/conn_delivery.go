package splice

import (
	"time"

	"github.com/portald/portald/platform/backoff"
)

// deliveryTime bounds the time in which a peer acknowledges none of the bytes left for it. Linux goes on for about as
// long for a process that has closed its socket.
const deliveryTime = time.Minute

// The pause between two looks doubles from the first to the last: nothing tells when a peer has acknowledged all.
const (
	firstDeliveryPause = time.Millisecond
	lastDeliveryPause  = 100 * time.Millisecond
)

// Delivery is the time that streams have, once a connection has ended, to reach their peers: see Step.Deliver.
type Delivery struct {
	timeout      time.Duration
	acknowledged int64         // by the peers, in bytes
	since        time.Duration // when it last became more
	pause        backoff.Pause
	next         time.Duration
}

// BeginDelivery begins what Step.Deliver asks for: the engine brings those streams to their peers, reads and drops
// others, and asks the sockets of the peers, when Look says, how much was acknowledged. Once that is all, Look gives
// up, or a peer is gone, it closes both sockets by a reset and calls Closed.
func BeginDelivery(c *Conn, now time.Duration) Delivery {
	c.life.entry.stage.enter(delivering)
	c.life.entry.front.core.counts.delivering.Add(1)
	p := &c.life.entry.plan.policy
	timeout := min(deliveryTime, max(p.DeadPeer, leastDeadPeer))
	silent := p.Idle
	if c.HalfClosed() {
		silent = p.HalfClose
	}
	if silent > 0 {
		timeout = min(timeout, silent)
	}
	d := Delivery{
		timeout: timeout, since: now, pause: backoff.Pause{First: firstDeliveryPause, Last: lastDeliveryPause},
	}
	d.next = now + d.pause.Next()
	return d
}

// Look is told how many bytes the peers have acknowledged by now, and returns when to look again. False: they have
// acknowledged none for so long that the rest is given up.
func (d *Delivery) Look(acknowledged int64, now time.Duration) (next time.Duration, goesOn bool) {
	if acknowledged > d.acknowledged {
		d.acknowledged, d.since = acknowledged, now
	}
	if now >= d.next {
		d.next = now + d.pause.Next()
	}
	return min(d.next, d.since+d.timeout), now < d.since+d.timeout
}
