package payload

import (
	"testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

func portOf(name string, keep service.KeepPayload) *service.Port {
	return &service.Port{Name: service.PortName{Namespace: "shop", Name: name}, Policy: service.Policy{KeepPayload: keep}}
}

// ended is a connection of a Service.
func ended(name string, id uint64, o record.Outcome) *record.Record {
	return &record.Record{ID: id, Service: portOf(name, 0).Name, Outcome: o}
}

// keptOf has so many bytes of the client.
func keptOf(n int) *Kept {
	k := NewKeeper(&memory{plenty})
	k.FromClient.Observe(0, make([]byte, n))
	return k.End(int64(n), 0)
}

func wantIDs(t *testing.T, r *Ring, ids ...uint64) {
	t.Helper()
	all := r.Content().Entries
	var bytes int64
	for i, e := range all {
		bytes += e.size()
		if i >= len(ids) || e.Record.ID != ids[i] {
			t.Fatalf("connection %d is there as number %d, want %d", e.Record.ID, i, ids)
		}
	}
	if len(all) != len(ids) || bytes != r.Content().Bytes {
		t.Fatalf("%d connections of %d bytes, want %d; %d bytes are counted", len(all), bytes, len(ids), r.Content().Bytes)
	}
}

// newRing is one of which two Services keep payload.
func newRing(most int64) *Ring {
	r := NewRing(most)
	for _, name := range []string{"cart", "orders"} {
		r.Changed(nil, portOf(name, service.KeepBadlyEnded))
	}
	r.Changed(nil, portOf("other", service.KeepNoPayload))
	return r
}

// Those that ended badly are kept, of Services that want that, if anything was sent.
func TestWhichAreKept(t *testing.T) {
	r := newRing(plenty)
	for id, o := range record.Outcomes() {
		r.Add(ended("cart", uint64(id), o), keptOf(10))
	}
	var want []uint64
	for id, o := range record.Outcomes() {
		if o != record.OutcomeOK && o != record.OutcomeMaxAge {
			want = append(want, uint64(id))
		}
	}
	r.Add(ended("other", 100, record.OutcomeEndpointReset), keptOf(10))
	r.Add(ended("cart", 101, record.OutcomeEndpointReset), keptOf(0))
	wantIDs(t, r, want...)
}

// The oldest make room, and are counted.
func TestRingIsBounded(t *testing.T) {
	const each = entryBytes + 2*Most
	r := newRing(3*each + 100)
	for id := range uint64(5) {
		r.Add(ended("cart", id, record.OutcomeCut), keptOf(100_000))
	}
	wantIDs(t, r, 2, 3, 4)
	r.Add(ended("cart", 5, record.OutcomeCut), keptOf(1))
	wantIDs(t, r, 3, 4, 5)
	if c := r.Content(); c.Dropped != 3 || c.Services != 2 || c.Bytes > c.Most {
		t.Errorf("%+v", c)
	}
}

// A Service that does not want it any more loses it, also what ends later; a change of something else does nothing.
func TestServiceLetsGo(t *testing.T) {
	r := newRing(plenty)
	r.Add(ended("cart", 1, record.OutcomeCut), keptOf(5000))
	r.Add(ended("orders", 2, record.OutcomeCut), keptOf(5000))
	r.Changed(portOf("cart", service.KeepBadlyEnded), portOf("cart", service.KeepBadlyEnded))
	wantIDs(t, r, 1, 2)
	r.Changed(portOf("cart", service.KeepBadlyEnded), portOf("cart", service.KeepNoPayload))
	wantIDs(t, r, 2)
	r.Add(ended("cart", 3, record.OutcomeCut), keptOf(5000))
	wantIDs(t, r, 2)
	r.Changed(portOf("orders", service.KeepBadlyEnded), nil)
	wantIDs(t, r)
	if c := r.Content(); c.Bytes != 0 || c.Services != 0 || c.Dropped != 0 {
		t.Errorf("%+v", c)
	}
}

// What may have ended well waits in a bounded room until that is decided.
func TestUndecided(t *testing.T) {
	r := newRing(openPart * Most)
	crashed, well, more := keptOf(Most), keptOf(1), keptOf(Most)
	if !r.Await(crashed) || r.Await(more) {
		t.Fatal("the room is not the size of one")
	}
	r.Decide(ended("cart", 1, record.OutcomeClosedEarly), crashed)
	if !r.Await(more) {
		t.Fatal("the room was not given back")
	}
	r.Decide(ended("cart", 2, record.OutcomeOK), more)
	if !r.Await(well) {
		t.Fatal("the room was not given back")
	}
	r.Decide(ended("cart", 3, record.OutcomeOK), well)
	wantIDs(t, r, 1)
	if c := r.Content(); c.Dropped != 1 {
		t.Errorf("%d were dropped, want the one that had no room", c.Dropped)
	}
}
