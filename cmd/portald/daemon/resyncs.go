package daemon

// resyncs requests from the reconcile loop to apply everything again, and knows whether it has done so once. Safe for
// concurrent use.
type resyncs struct {
	requests chan string   // and why
	ready    chan struct{} // closed after the first resync
}

func newResyncs() *resyncs { return &resyncs{make(chan string, 1), make(chan struct{})} }

// request never blocks. Why is for people.
func (r *resyncs) request(why string) {
	select {
	case r.requests <- why:
	default: // one is pending, for a cause of its own
	}
}

// requestIfReady requests nothing before the first resync, which applies everything anyway.
func (r *resyncs) requestIfReady(why string) {
	if r.isReady() {
		r.request(why)
	}
}

func (r *resyncs) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}
