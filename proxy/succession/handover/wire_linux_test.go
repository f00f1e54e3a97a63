package handover

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// bodies are those that are decoded, by the kind of message.
func bodies() map[kind]any {
	return map[kind]any{
		hello: &Hello{}, welcome: &Welcome{}, refusal: &Refusal{}, begin: &Begin{}, sockets: &Sockets{}, turns: &Turns{},
		begun: &Begun{}, serving: &Serving{}, batch: &Batch{}, done: &Done{},
	}
}

// FuzzMessages: what comes is refused or can be restored, and takes no memory out of proportion.
func FuzzMessages(f *testing.F) {
	at := netip.MustParseAddrPort("10.0.0.1:53")
	life := splice.SavedLife{Client: at, OriginalDst: at, Attempts: []record.Attempt{{Endpoint: at, Err: "x", Times: 1}}}
	bindings := []balance.Binding{{Client: at.Addr(), Endpoint: at, Unused: 5}}
	full := Batch{
		Conns: []*splice.SavedConn{{SavedLife: life, Up: splice.SavedFlow{Rest: []byte("rest"), Passed: -4}}, {
			SavedLife: life, Down: splice.SavedFlow{InPipe: 5, Urgent: true},
		}},
		Sessions: []*splice.SavedSession{{SavedLife: life, Local: at.Addr(), Unanswered: []byte("?")}},
		At:       at, Records: Records{{ID: 4, Errno: 5}}, Resume: &Socket{Kind: Front, Address: at},
		Turns: []Turn{{State: balance.Saved{Next: at, Bindings: bindings}}},
	}
	for k, body := range map[kind]any{
		hello:   Hello{Identity: Identity{Installation: "this"}, Settles: true, Carries: []string{"x"}},
		refusal: Refusal{"no"}, begin: Begin{5},
		sockets: Sockets{[]Socket{*full.Resume}}, turns: Turns{Turns: full.Turns}, begun: Begun{5, []Drained{{Endpoint: at}}},
		serving: Serving{[]bool{true, false}}, batch: full, done: Done{Left: 4}, taken: nil, kind(99): nil,
	} {
		message, err := encode(k, body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
	}
	nulls := append([]byte{byte(batch), 0xa1, 0x65, 'C', 'o', 'n', 'n', 's', 0x9a, 0, 2, 0, 0}, make([]byte, 1<<17)...)
	f.Add(nulls)
	f.Fuzz(func(t *testing.T, message []byte) {
		if len(message) == 0 || len(message) > maxMessage {
			return
		}
		k := kind(message[0])
		body, known := bodies()[k]
		_ = k.String()
		if !known {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode(message, body)
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 64<<20 {
			t.Errorf("%d bytes took %d of memory", len(message), after.TotalAlloc-before.TotalAlloc)
		}
		if b, is := body.(*Batch); is && err == nil {
			restoreAll(t, b)
		}
	})
}

// restoreAll goes on with all of a batch that passes the check.
func restoreAll(t *testing.T, b *Batch) {
	n := 0
	for _, c := range b.Conns {
		if c == nil {
			return
		}
	}
	if n = b.files(); n > maxFiles || b.check(n) != nil {
		return
	}
	files := make([]int, n)
	for i := range files {
		files[i] = -1
	}
	got := 0
	b.restore(files, Taker{
		Conn: func(_ *splice.SavedConn, files []int) { got += len(files) },
		Session: func(_ netip.AddrPort, s *splice.SavedSession, _ int) bool {
			got++
			return s.Local.IsValid()
		},
		Batch: func(b *Batch) {
			for _, r := range b.Records {
				_ = r.Proxy()
			}
		},
	})
	if got != n {
		t.Errorf("%d descriptors of %d were passed on", got, n)
	}
}
