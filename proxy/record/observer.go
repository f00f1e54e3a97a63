package record

// Observer gets the record of each connection and UDP session when it has ended, exactly once. It is called on the data
// path, by several goroutines at once: it must not block. It may keep the record, and must not change it.
type Observer interface{ Observe(*Record) }

// ObserverFunc is a function that observes.
type ObserverFunc func(*Record)

// Observe implements Observer.
func (f ObserverFunc) Observe(r *Record) { f(r) }

// Events are calls for what happens to connections and UDP sessions; nil: none. They are made on the data path, by
// several goroutines at once: they must not block.
type Events struct {
	Started   func(Live)          // it was admitted, and no endpoint was dialled yet
	Attempted func(Live, Attempt) // an attempt has its result
	Ended     func(*Record)       // also of what was refused; the record is not to be changed
}
