package splice

import (
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
)

// Defaults are complete: nothing is left open, whatever is set.
func TestPolicyIsComplete(t *testing.T) {
	noEngine := func(*Core) (Engine, error) { return nil, nil }
	c, err := New(Options{Policy: service.Policy{HalfClose: time.Second}}, noEngine)
	if err != nil {
		t.Fatal(err)
	}
	view := &View{Port: &service.Port{Policy: service.Policy{MaxConnections: 5}}}
	got, defaults := newPlan(view, c.policy.Load()).policy, service.DefaultPolicy()
	if !slices.Equal(got.ConnectTimeouts, defaults.ConnectTimeouts) || got.HalfClose != time.Second ||
		got.Idle != service.Never || got.UDPIdle != time.Minute || got.MaxConnections != 5 ||
		got.ClientAddress != service.AddressNode {
		t.Errorf("got %+v", got)
	}
}
