package nftables

// tally counts who needs what.
type tally[K comparable] struct {
	count  map[K]int
	before map[K]bool // what was counted since the last take, and whether anyone needed it then
}

func newTally[K comparable]() tally[K] { return tally[K]{map[K]int{}, map[K]bool{}} }

func (t *tally[K]) add(n int, need K) {
	if _, ok := t.before[need]; !ok {
		t.before[need] = t.count[need] > 0
	}
	if t.count[need] += n; t.count[need] == 0 {
		delete(t.count, need)
	}
}

// take tells of what was counted since the last take: what is needed now and was not, the reverse, and what still is.
func (t *tally[K]) take() (came, went, stayed []K) {
	for need, before := range t.before {
		switch now := t.count[need] > 0; {
		case now && before:
			stayed = append(stayed, need)
		case now:
			came = append(came, need)
		case before:
			went = append(went, need)
		}
	}
	t.before = map[K]bool{}
	return came, went, stayed
}
