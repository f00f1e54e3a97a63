package handover

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// ofPods are connections to pods with names of these lengths.
func ofPods(t *testing.T, lengths ...int) (all []*splice.Departure) {
	t.Helper()
	for i, n := range lengths {
		d := connection(t, uint64(i))
		d.Conn.Endpoint.Pod = strings.Repeat("x", n)
		all = append(all, d)
	}
	return all
}

// lengths are names with which not all connections fit into one message, and one fits into none.
func lengths() []int {
	all := slices.Repeat([]int{3000}, 80)
	all = append(all, slices.Repeat([]int{20_000}, 50)...)
	all = append(all, 200_000)
	return append(all, slices.Repeat([]int{100}, 80)...)
}

const tooLong = 130 // its place

// However long the names are that belong to connections, all are passed on that a message has room for. The others, and
// these alone, stay.
func TestLongNames(t *testing.T) {
	for name, most := range map[string]int{"as usual": maxMessage, "a small send buffer": 30_000} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			p, s := served(t, 1<<20)
			s.c.most = most
			var h recordingTaker
			end := h.serves(t, p)
			awaitServing(t, s)
			given := ofPods(t, lengths()...)
			if n, err := s.Give(netip.AddrPort{})(given); n != len(given) || err != nil {
				t.Fatalf("%d of %d were taken: %v", n, len(given), err)
			}
			must(t, s.Done(1))
			must(t, <-end)
			if len(h.conns) != len(given)-1 || !given[tooLong].Stays {
				t.Errorf("%d connections came of %d", len(h.conns), len(given))
			}
			for _, c := range h.conns {
				if c.ID == tooLong || c.Endpoint.Pod != given[c.ID].Conn.Endpoint.Pod {
					t.Errorf("connection %d came with a pod of %d bytes", c.ID, len(c.Endpoint.Pod))
				}
			}
		})
	}
}

// So are records.
func TestLongNamesOfRecords(t *testing.T) {
	noLeak(t)
	p, s := served(t, 1<<20)
	var h recordingTaker
	taker, records := h.taker(t), 0
	taker.Batch = func(b *Batch) { records += len(b.Records) }
	end := make(chan error, 1)
	go func() {
		_, err := p.Serving(nil, taker)
		end <- err
	}()
	awaitServing(t, s)
	var all []*record.Record
	for _, d := range ofPods(t, lengths()...) {
		all = append(all, &record.Record{Start: time.Now(), Endpoint: d.Conn.Endpoint})
	}
	must(t, s.Records(all))
	must(t, s.Done(0))
	must(t, <-end)
	if records != len(all)-1 {
		t.Errorf("%d records came of %d", records, len(all))
	}
}

// So are changes, as they were, and a message that has something unknown is taken: an older successor knows no changes.
func TestChanges(t *testing.T) {
	noLeak(t)
	p, s := served(t, 1<<20)
	s.c.most = 30_000
	var h recordingTaker
	taker, got, batches := h.taker(t), []changes.Change{}, 0
	taker.Batch = func(b *Batch) { got, batches = append(got, b.Changes...), batches+1 }
	end := make(chan error, 1)
	go func() {
		_, err := p.Serving(nil, taker)
		end <- err
	}()
	awaitServing(t, s)
	all := make([]changes.Change, 1000)
	for i := range all {
		all[i] = changes.Change{Time: time.Unix(1e9, int64(i)), Kind: changes.EndpointRemoved, Old: "ready",
			Service: service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
			Pod:     strings.Repeat("x", i), Endpoint: netip.MustParseAddrPort("10.1.0.3:80")}
	}
	all[1].Endpoint, all[1].Service = netip.AddrPort{}, service.PortName{} // of the node
	must(t, s.Changes(all))
	unknown, err := encoding.Marshal("of a newer version")
	must(t, err)
	must(t, s.c.send(batch, struct{ Unknown []cbor.RawMessage }{[]cbor.RawMessage{unknown}}))
	must(t, s.c.expect(taken, nil, step))
	must(t, s.c.send(goAhead, nil))
	must(t, s.Done(0))
	must(t, <-end)
	for i := range got {
		if want := all[i]; !got[i].Time.Equal(want.Time) || got[i].Text() != want.Text() || got[i].Line() != want.Line() {
			t.Fatalf("%+v came of %+v", got[i], want)
		}
	}
	if len(got) != len(all) || batches < 20 {
		t.Errorf("%d of %d changes came, in %d batches", len(got), len(all), batches)
	}
}

// Endpoints that are ejected or drained are passed on however many they are.
func TestManyEndpoints(t *testing.T) {
	noLeak(t)
	p, s := meet(t)
	s.c.most = 9000
	const n = 10_000
	turn := Turn{State: balance.Saved{Next: netip.MustParseAddrPort("10.1.0.3:80")}}
	turn.Name.Name = strings.Repeat("n", 63)
	var drained []Drained
	for i := range n {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80)
		turn.State.Ejected = append(turn.State.Ejected, balance.Ejection{Endpoint: at, Times: 1})
		turn.State.Bindings = append(turn.State.Bindings, balance.Binding{Client: at.Addr(), Endpoint: at})
		drained = append(drained, Drained{Name: turn.Name, Endpoint: at})
	}
	passed := make(chan error, 1)
	go func() {
		err := s.AwaitBegin(t.Context())
		if err == nil {
			err = s.Turns([]Turn{turn})
		}
		if err == nil {
			_, err = s.Begun(Begun{LastID: 7, Drained: drained}, longest)
		}
		passed <- err
	}()
	e, err := p.Begin(1 << 20)
	must(t, err)
	must(t, p.c.send(serving, Serving{}))
	must(t, <-passed)
	ejected, bound := 0, 0
	for _, part := range e.Turns {
		ejected, bound = ejected+len(part.State.Ejected), bound+len(part.State.Bindings)
	}
	if ejected != n || bound != n || e.LastID != 7 || !slices.Equal(e.Drained, drained) {
		t.Errorf("%d ejected, %d bound, %d drained", ejected, bound, len(e.Drained))
	}
}

// A send buffer that the host bounds has room for what is sent.
func TestSendBuffer(t *testing.T) {
	noLeak(t)
	a, b := raw(t)
	if a.most <= 0 || a.most > maxMessage {
		t.Fatalf("%d bytes", a.most)
	}
	must(t, a.send(batch, make([]byte, a.most-10)))
	message, _, err := b.receive(longest)
	must(t, err)
	if len(message) < a.most-10 {
		t.Error(fmt.Sprint(len(message), " bytes came"))
	}
}

// A keeper gets, and passes on, all connections that a message has room for, and portald knows how many it did not get.
func TestLongNamesOfKept(t *testing.T) {
	for name, most := range map[string]int{"as usual": maxMessage, "a small send buffer": 30_000} {
		t.Run(name, func(t *testing.T) {
			keeper, path := keeperAt(t, time.Minute, 2000)
			d := daemonOf(t, path)
			d.c.most = most
			_, files := pair(t)
			must(t, d.Keep(Kept{Sockets: []Socket{{Kind: Front}}}, files[0]))
			var all []*splice.Kept
			for i, n := range lengths() {
				k := keptConnection(uint32(i), files)
				k.State.Endpoint.Pod = strings.Repeat("x", n)
				all = append(all, k)
			}
			large, err := d.KeepConns(all)
			must(t, err)
			if large != 1 || d.Room() != 2000-1-2*(len(all)-1) {
				t.Errorf("%d are too large, and there is room for %d", large, d.Room())
			}
			must(t, d.Drop(Dropped{Slots: []uint32{0, tooLong}}))
			awaitDescriptors(t, keeper, 1+2*(len(all)-2))
			d.Close()
			next := daemonOf(t, path)
			r, _, err := next.Claim("")
			must(t, err)
			if len(r.Conns) != len(all)-2 {
				t.Errorf("%d connections are claimed of %d", len(r.Conns), len(all))
			}
			r.Close()
		})
	}
}
