package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	countEvery = 10 * time.Second // at most: to read a counter of rules takes a process
	countTime  = 2 * time.Second  // for that
)

// invalidDrops count the packets that rules of iptables drop, since conntrack finds them invalid. A rule that is
// written again counts from 0: its drops since the last read are lost.
type invalidDrops struct {
	read func(context.Context) (packets uint64, drops bool, err error) // of the rules as they are
	log  logrus.FieldLogger

	mu    sync.Mutex
	at    time.Time // when it was read last
	known bool
	total uint64
	last  uint64 // what was read
}

// dropped is how many there were so far; false: no rule drops such packets, or it could not be read yet.
func (d *invalidDrops) dropped() (packets uint64, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Since(d.at) < countEvery {
		return d.total, d.known
	}
	d.at = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	now, drops, err := d.read(ctx)
	if err != nil {
		d.log.WithError(err).Debug("Cannot count dropped packets")
		return d.total, d.known
	}
	if d.known = drops; !drops {
		return d.total, false
	}
	if now < d.last {
		d.last = 0
	}
	d.total, d.last = d.total+now-d.last, now
	return d.total, true
}
