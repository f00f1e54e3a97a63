package splice

import (
	"slices"
	"time"
)

// Keep has the engine note what the established TCP connections of at least that age do which nobody keeps yet, and
// passes them to give, some at a time.
//
// Again: those that are kept too, since another keeper begins.
func (c *Core) Keep(age time.Duration, again bool, give func([]*Kept)) {
	var young []*Conn
	for _, m := range c.open() {
		if conn, ok := m.(*Conn); ok && (again || !conn.kept.Load()) && c.Now()-conn.began >= age {
			young = append(young, conn)
		}
	}
	for some := range slices.Chunk(young, departing) {
		answers := make(chan *Kept, len(some))
		for _, conn := range some {
			conn.owner.Keep(func(k *Kept) {
				if k != nil {
					conn.kept.Store(true)
				}
				answers <- k
			})
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
