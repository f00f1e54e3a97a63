package daemon

import "testing"

// Requests are one until it is taken, and before the first resync there is none.
func TestResyncs(t *testing.T) {
	r := newResyncs()
	r.requestIfReady("a test")
	if len(r.requests) != 0 {
		t.Error("requested before the first resync")
	}
	close(r.ready)
	for range 3 {
		r.requestIfReady("a test")
	}
	if len(r.requests) != 1 {
		t.Errorf("%d requests, want 1", len(r.requests))
	}
}
