package splice

import (
	"slices"
	"time"

	"github.com/portald/portald/proxy/quota"
)

// Keep has the engine note what the established TCP connections of at least that age do which nobody keeps yet, and
// passes them to give, some at a time, and no more than most. If there are more than places for them, Services share
// these as they share descriptors.
//
// Again: those that are kept too, since another keeper begins.
func (c Moving) Keep(age time.Duration, again bool, most int, give func([]*Kept)) {
	var young []*Conn
	before := c.Now() - age
	if most <= 0 {
		return
	}
	for _, conn := range c.openConns() {
		if len(young) == most {
			break
		}
		switch kept := conn.kept.Load(); {
		case conn.life.entry.began > before:
		case kept && again, !kept && conn.quota.Take(quota.Kept, 1):
			young = append(young, conn)
		}
	}
	for some := range slices.Chunk(young, departing) {
		answers := make(chan *Kept, len(some))
		for _, conn := range some {
			conn.owner.Keep(func(k *Kept) { answers <- Passage{conn}.keptAs(k) })
		}
		var all []*Kept
		for range some {
			if k := <-answers; k != nil {
				all = append(all, k)
			}
		}
		if len(all) > 0 {
			give(all)
		}
	}
}

// Unkept is called when the keeper has gone: once it returns, a death of this process resets connections again.
func (c Moving) Unkept() {
	for _, conn := range c.openConns() {
		if conn.kept.Load() {
			conn.owner.Unkept()
		}
	}
	c.settle()
}

// keptAs notes that somebody keeps the connection, or gives its place back. It is called by the owner, or when there is
// none any more.
func (c Passage) keptAs(k *Kept) *Kept {
	switch {
	case k != nil:
		c.kept.Store(true)
	case !c.kept.Load():
		c.quota.Give(quota.Kept, 1)
	}
	return k
}
