package splice

import (
	"fmt"
	"testing"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// keptOwner is the owner of a connection that can be kept, or cannot now.
type keptOwner struct {
	idleOwner
	cannot *bool
	calls  *int
}

func (o keptOwner) Keep(tell func(*Kept)) {
	*o.calls++
	if *o.cannot {
		tell(nil)
		return
	}
	tell(&Kept{})
}

// keepable returns a core with so many open connections, and places for less.
func keepable(t testing.TB, conns, places int) (c *Core, o keptOwner) {
	c = carryingWithin(t, quota.Budget{Kept: places}, conns)
	o = keptOwner{cannot: new(bool), calls: new(int)}
	for _, conn := range c.Moving().openConns() {
		conn.owner = o
	}
	return c, o
}

func keepAll(c *Core, again bool) (n int) {
	c.Moving().Keep(0, again, many, func(some []*Kept) { n += len(some) })
	return n
}

// A Service with many connections leaves places for others, and connections without a place cost their loops nothing.
func TestKeepSharesPlaces(t *testing.T) {
	c, o := keepable(t, 200, 90)
	n := keepAll(c, false)
	if n < 60 || n > 80 || *o.calls != n || c.Stats().Kept != int64(n) {
		t.Errorf("%d of 200 are kept, %d were asked, %d places of 90 are taken", n, *o.calls, c.Stats().Kept)
	}
	if more := keepAll(c, false); more != 0 || *o.calls != n {
		t.Errorf("%d more are kept, %d were asked", more, *o.calls)
	}
	if all := keepAll(c, true); all != n {
		t.Errorf("another keeper gets %d, want %d", all, n)
	}
	for _, conn := range c.Moving().openConns() {
		conn.Abort(record.OutcomeCut)
		conn.Closed(c.Now())
	}
	if n := c.Stats().Kept; n != 0 {
		t.Errorf("%d places are taken by nobody", n)
	}
}

// A connection that cannot be kept now takes no place, and is tried again.
func TestKeepLater(t *testing.T) {
	c, o := keepable(t, 10, 90)
	*o.cannot = true
	if n := keepAll(c, false); n != 0 || c.Stats().Kept != 0 {
		t.Errorf("%d are kept, with %d places", n, c.Stats().Kept)
	}
	*o.cannot = false
	if n := keepAll(c, false); n != 10 || c.Stats().Kept != 10 {
		t.Errorf("%d are kept, with %d places", n, c.Stats().Kept)
	}
}

// BenchmarkKeepNothingNew measures a look through all connections, where all or none of them have places.
func BenchmarkKeepNothingNew(b *testing.B) {
	for _, places := range []int{0, 1 << 15} {
		b.Run(fmt.Sprintf("places=%d", places), func(b *testing.B) {
			c, _ := keepable(b, many, places)
			keepAll(c, false)
			for b.Loop() {
				keepAll(c, false)
			}
		})
	}
}
