package flows

import "time"

// maxBeginnings bounds the flows whose beginning is remembered, at some 40 bytes each.
const maxBeginnings = 1 << 16

// beginnings are when flows began, by their id, in ns since 1970: for a kernel that keeps no times. When there are too
// many, half of them are forgotten. The zero value is empty.
type beginnings struct{ recent, older map[uint32]int64 }

func (b *beginnings) note(id uint32, at time.Time) {
	if len(b.recent) >= maxBeginnings/2 || b.recent == nil {
		b.recent, b.older = map[uint32]int64{}, b.recent
	}
	b.recent[id] = at.UnixNano()
}

// take returns and forgets when a flow began, 0 if that is not known.
func (b *beginnings) take(id uint32) int64 {
	for _, m := range []map[uint32]int64{b.recent, b.older} {
		if at, ok := m[id]; ok {
			delete(m, id)
			return at
		}
	}
	return 0
}
