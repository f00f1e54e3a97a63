package dataplane

import (
	"fmt"
	"testing"

	"github.com/portald/portald/portal/service"
)

// A health-check port is open as long as any service port of its Service, in the transaction that writes its portals;
// it passes to another Service without being closed, and is told of once.
func TestHealthCheckPorts(t *testing.T) {
	r := newRig()
	checked := func(name, frontend string, port uint16) *service.Port {
		p := portOf(name, frontend, service.ModeKernel, "10.244.0.5:53")
		p.Exposures, p.HealthCheckPort = p.Exposures[:1], port
		return p
	}
	a, b := checked("a", vip, 32001), checked("b", "10.96.0.11:53", 32001)
	step := func(what string, want string, changes ...service.Change) {
		t.Helper()
		r.diary.lines = nil
		if err := r.Sync(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, line := range r.diary.lines {
			var word string
			if fmt.Sscan(line, &word); word == "open" || word == "update" && got != "" {
				got += line + "; "
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	if err := r.Resync(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	step("the first", "open map[32001:true]; update 1; ", service.Change{Name: a.Name, Port: a})
	step("nothing new", "", service.Change{Name: a.Name, Port: a})
	step("another one", "", service.Change{Name: b.Name, Port: b})
	step("one is gone", "", service.Change{Name: a.Name})
	other := checked("b", "10.96.0.11:53", 32002)
	step("another port", "open map[32001:false 32002:true]; update 0; ", service.Change{Name: b.Name, Port: other})
	step("both gone", "open map[32002:false]; update 1; ", service.Change{Name: b.Name})
	step("in one sync", "open map[32001:true]; update 2; ", service.Change{Name: a.Name, Port: a},
		service.Change{Name: b.Name, Port: b})
	if err := r.Resync(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	step("after a resync without them", "open map[32002:true]; update 1; ", service.Change{Name: b.Name, Port: other})
}
