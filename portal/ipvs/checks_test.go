package ipvs

import (
	"context"
	"testing"
)

// Health-check ports are for the Rules, which write them with the next Update although it has no portal for them.
func TestHealthCheckPorts(t *testing.T) {
	w, r := newFake().writer(t, Options{})
	if err := w.Replace(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	w.Open(map[uint16]bool{32001: true})
	if err := w.Update(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	const written = "health checks port 32001"
	calls := len(r.Calls)
	if got := r.Dump(); got != written || r.Calls[calls-1] != "update 0" {
		t.Errorf("%s, after %q", got, r.Calls)
	}
	if err := w.Update(context.Background(), nil); err != nil || len(r.Calls) != calls {
		t.Errorf("%v, %q once all is written", err, r.Calls[calls:])
	}
}
