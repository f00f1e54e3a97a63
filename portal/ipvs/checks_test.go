package ipvs

import (
	"context"
	"fmt"
	"testing"
)

func (r *rules) Open(ports map[uint16]bool) { r.opened = fmt.Sprint(ports) }

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
	if r.opened != "map[32001:true]" || r.updates != 1 {
		t.Errorf("opened %s, %d updates", r.opened, r.updates)
	}
	if err := w.Update(context.Background(), nil); err != nil || r.updates != 1 {
		t.Errorf("%v, %d updates once all is written", err, r.updates)
	}
}
