package ipvs

// tally counts the uses of things, of which the kernel knows only whether they are there.
type tally[K comparable] struct {
	uses   map[K]int
	before map[K]bool // what was touched since it was last settled: whether it was there
}

func newTally[K comparable]() tally[K] { return tally[K]{map[K]int{}, map[K]bool{}} }

// add counts n uses more of k; a negative n counts fewer.
func (t tally[K]) add(k K, n int) {
	if _, touched := t.before[k]; !touched {
		t.before[k] = t.uses[k] > 0
	}
	t.uses[k] += n
	if t.uses[k] == 0 {
		delete(t.uses, k)
	}
}

// know says what there is before anything is counted.
func (t tally[K]) know(k K) { t.before[k] = true }

// knows tells whether k was there before anything was counted.
func (t tally[K]) knows(k K) bool { return t.before[k] }

// has tells whether k is used.
func (t tally[K]) has(k K) bool { return t.uses[k] > 0 }

// come are those that are used now and were not there; gone are those that were there and are without use.
func (t tally[K]) come() (out []K) {
	for k, was := range t.before {
		if !was && t.uses[k] > 0 {
			out = append(out, k)
		}
	}
	return out
}

func (t tally[K]) gone() (out []K) {
	for k, was := range t.before {
		if was && t.uses[k] == 0 {
			out = append(out, k)
		}
	}
	return out
}

// settle is for when the kernel has been told of all that came and went.
func (t *tally[K]) settle() { t.before = map[K]bool{} } // cleared, it would keep, and walk, the size of the largest change
