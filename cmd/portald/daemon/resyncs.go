package daemon

// resyncs requests from the reconcile loop to apply everything again, and knows whether it has done so once. Safe for
// concurrent use.
type resyncs struct {
	requests chan struct{}
	ready    chan struct{} // closed after the first resync
}

func newResyncs() *resyncs { return &resyncs{make(chan struct{}, 1), make(chan struct{})} }

// request never blocks.
func (r *resyncs) request() {
	select {
	case r.requests <- struct{}{}:
	default: // one is pending
	}
}

// requestIfReady requests nothing before the first resync, which applies everything anyway.
func (r *resyncs) requestIfReady() {
	if r.isReady() {
		r.request()
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
