package adminsocket

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// five are connections with the ids 3, 5, 1, 4, 2: the larger the id, the more bytes, the older, the less idle and the
// nearer, but for the first, of which nobody knows how far it is.
func five() *fake {
	now, f := time.Now(), &fake{rtt: map[uint64]float64{1: 0, 2: 8, 3: 7, 4: 6, 5: 5}}
	for _, id := range []uint64{3, 5, 1, 4, 2} {
		c := connection(id)
		c.BytesFromClient, c.BytesFromEndpoint = int64(id), int64(id)
		c.Start, c.LastMoved = now.Add(-time.Duration(id)*time.Second), now.Add(time.Duration(id)*time.Second)
		f.open = append(f.open, c)
	}
	return f
}

func chosen(t *testing.T, f *fake, q ConnectionQuery) (ids []uint64) {
	d := f.daemon()
	for c := range q.choose(t.Context(), &d, time.Now()) {
		ids = append(ids, c.ID)
		if q.TCP && (c.EndpointTCP == nil || c.EndpointTCP.RTTms != f.rtt[c.ID]) {
			t.Errorf("connection %d has %+v", c.ID, c.EndpointTCP)
		}
	}
	return ids
}

// The first of each order, with a limit and without. TCP_INFO is asked for as few as can be.
func TestOrders(t *testing.T) {
	for _, test := range []struct {
		by           Order
		limit        int
		tcp          bool
		want         []uint64
		wantTCPInfos int
	}{
		{ByBytes, 0, false, []uint64{5, 4, 3, 2, 1}, 0},
		{ByBytes, 2, true, []uint64{5, 4}, 2},
		{ByAge, 1, false, []uint64{5}, 0},
		{ByIdle, 3, false, []uint64{1, 2, 3}, 0},
		{ByIdle, 9, true, []uint64{1, 2, 3, 4, 5}, 5},
		{ByRTT, 0, false, []uint64{2, 3, 4, 5, 1}, 5},
		{ByRTT, 1, true, []uint64{2}, 5},
		{"", 2, true, []uint64{3, 5}, 2},
		{"", 0, false, []uint64{3, 5, 1, 4, 2}, 0},
	} {
		f := five()
		got := chosen(t, f, ConnectionQuery{Sort: test.by, Limit: test.limit, TCP: test.tcp})
		if !slices.Equal(got, test.want) || f.tcpInfos != test.wantTCPInfos {
			t.Errorf("%+v: %v, asked for %d", test, got, f.tcpInfos)
		}
	}
}

// Of many, a limit gives the same as the head of all, in batches too.
func TestLimitOfMany(t *testing.T) {
	f := &fake{rtt: map[uint64]float64{}}
	for id := range uint64(5000) {
		c := connection(id)
		c.BytesFromClient = rand.Int64N(1000)
		f.open = append(f.open, c)
		f.rtt[id] = float64(id)
	}
	for _, by := range []Order{ByBytes, ByRTT, ""} {
		all := chosen(t, f, ConnectionQuery{Sort: by, TCP: true})
		for _, limit := range []int{1, 7, 300, 4999, 5000, 6000} {
			got := chosen(t, f, ConnectionQuery{Sort: by, TCP: true, Limit: limit})
			if !slices.Equal(got, all[:min(limit, len(all))]) {
				t.Errorf("by %q, the first %d are others", by, limit)
			}
		}
	}
}

// Both carriers are listed, unless one is asked for.
func TestCarriers(t *testing.T) {
	f := five()
	d := f.daemon()
	kernel := connection(0)
	kernel.CarriedBy = "kernel"
	d.Kernel = (&fake{open: []Connection{kernel}}).daemon().Connections
	for by, want := range map[string]int{"": 6, "userspace": 5, "kernel": 1, "other": 0} {
		q, n := ConnectionQuery{}, 0
		if by != "" {
			q.CarriedBy = []string{by}
		}
		for range q.choose(t.Context(), &d, time.Now()) {
			n++
		}
		if n != want {
			t.Errorf("carried by %q: %d, want %d", by, n, want)
		}
	}
}
