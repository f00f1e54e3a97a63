package nftables

// refcount counts references to things that portals share.
type refcount[K comparable] struct {
	count  map[K]int
	before map[K]bool // of those whose count changed since the last take, whether there was a reference then
}

func newRefcount[K comparable]() refcount[K] { return refcount[K]{map[K]int{}, map[K]bool{}} }

// add adds n references, which may be negative.
func (r *refcount[K]) add(n int, to K) {
	if _, ok := r.before[to]; !ok {
		r.before[to] = r.count[to] > 0
	}
	if r.count[to] += n; r.count[to] == 0 {
		delete(r.count, to)
	}
}

// take returns what was counted since the last take: what got its first reference, what lost its last, and what has had
// some all the time.
func (r *refcount[K]) take() (added, removed, kept []K) {
	for to, before := range r.before {
		switch now := r.count[to] > 0; {
		case now && before:
			kept = append(kept, to)
		case now:
			added = append(added, to)
		case before:
			removed = append(removed, to)
		}
	}
	r.before = map[K]bool{}
	return added, removed, kept
}
