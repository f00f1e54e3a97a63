package writer

// Refcount counts references to things that portals share, and of which the host only knows whether they are there.
type Refcount[K comparable] struct {
	counts map[K]int
	before map[K]bool // of what was touched since Settle, whether the host had it then
}

// NewRefcount returns counts of nothing, for a host that has nothing.
func NewRefcount[K comparable]() Refcount[K] { return Refcount[K]{map[K]int{}, map[K]bool{}} }

// Add adds n references, which may be negative.
func (r *Refcount[K]) Add(n int, to K) {
	if _, touched := r.before[to]; !touched {
		r.before[to] = r.counts[to] > 0
	}
	if r.counts[to] += n; r.counts[to] == 0 {
		delete(r.counts, to)
	}
}

// MarkInstalled notes that the host has something, before anything is counted or because it was added.
func (r *Refcount[K]) MarkInstalled(k K) { r.before[k] = true }

// WasInstalled tells whether the host had something at the last Settle. It knows only of what was touched since.
func (r *Refcount[K]) WasInstalled(k K) bool { return r.before[k] }

// Counts are the references, none of them 0. They are not to be changed.
func (r *Refcount[K]) Counts() map[K]int { return r.counts }

// Added returns what the host has not yet and should.
func (r *Refcount[K]) Added() []K { return r.changed(false, true) }

// Removed returns what the host still has and should not.
func (r *Refcount[K]) Removed() []K { return r.changed(true, false) }

// Kept returns what was touched since Settle and is to stay.
func (r *Refcount[K]) Kept() []K { return r.changed(true, true) }

func (r *Refcount[K]) changed(before, now bool) (out []K) {
	for k, was := range r.before {
		if was == before && (r.counts[k] > 0) == now {
			out = append(out, k)
		}
	}
	return out
}

// Settle notes that the host has what it should.
func (r *Refcount[K]) Settle() { r.before = map[K]bool{} } // clear would keep, and walk, the size of the largest change
