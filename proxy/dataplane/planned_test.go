package dataplane

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

func TestWritesNoRule(t *testing.T) {
	r := newRig()
	before := portOf("cart", "10.96.0.1:53", service.ModeUserspace, "10.0.0.1:53")
	if r.WritesNoRule(service.Change{Name: before.Name, Port: before}) {
		t.Error("a new service port writes no rule")
	}
	r.sync(t, before)
	older := portOf("cart", "10.96.0.1:53", service.ModeUserspace, "10.0.0.1:53")
	older.Created = time.Unix(0, 0)
	for _, c := range []struct {
		what string
		port *service.Port
		want bool
	}{
		{"other endpoints", portOf("cart", "10.96.0.1:53", service.ModeUserspace, "10.0.0.2:53", "10.0.0.3:53"), true},
		{"no endpoint", portOf("cart", "10.96.0.1:53", service.ModeUserspace), false},
		{"another address", portOf("cart", "10.96.0.2:53", service.ModeUserspace, "10.0.0.1:53"), false},
		{"another mode", portOf("cart", "10.96.0.1:53", service.ModeKernel, "10.0.0.1:53"), false},
		{"an older Service", older, false},
		{"gone", nil, false},
	} {
		if got := r.WritesNoRule(service.Change{Name: before.Name, Port: c.port}); got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
	r.took()
	other := portOf("cart", "10.96.0.1:53", service.ModeUserspace, "10.0.0.2:53")
	r.WritesNoRule(service.Change{Name: before.Name, Port: other})
	for _, want := range []string{"serve cart as planned", "serve cart"} { // for one sync
		r.sync(t, other)
		if got := r.took(); got != "serving cart; "+want+"; retire cart" {
			t.Errorf("other endpoints: %s", got)
		}
	}
	r.WritesNoRule(service.Change{Name: before.Name, Port: other})
	r.resync(t, other)
	if got := r.took(); got != "serving cart; serve cart; replace 2; retire cart" {
		t.Errorf("a resync goes by what was planned before: %s", got)
	}
}

// A service port in quarantine is not as the table has it.
func TestWritesNoRuleInQuarantine(t *testing.T) {
	r := newRig()
	r.written.Refuses = func(p portal.Portal) error { return errors.New("no") }
	p := portOf("cart", "10.96.0.1:53", service.ModeUserspace, "10.0.0.1:53")
	if err := r.Sync(t.Context(), []service.Change{{Name: p.Name, Port: p}}); err == nil && len(r.refusals) == 0 {
		t.Fatal("not in quarantine")
	}
	if r.WritesNoRule(service.Change{Name: p.Name, Port: p}) {
		t.Error("it would be tried at once, and write rules")
	}
}

// BenchmarkRulelessChange costs the same at any number of Services.
func BenchmarkRulelessChange(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig()
			r.written.Unknown = false
			var changes []service.Change
			for i := range n {
				p := portOf(fmt.Sprint("s", i), fmt.Sprintf("10.96.%d.%d:53", i>>8, i&255), service.ModeUserspace, "10.0.0.1:53")
				p.Exposures = p.Exposures[:1]
				changes = append(changes, service.Change{Name: p.Name, Port: p})
			}
			if err := r.Sync(b.Context(), changes); err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				i++
				p := *changes[i%n].Port
				p.Endpoints = append(p.Endpoints[:1:1], p.Endpoints[0])
				c := service.Change{Name: p.Name, Port: &p}
				if !r.WritesNoRule(c) {
					b.Fatal("it writes rules")
				}
				if err := r.Sync(b.Context(), []service.Change{c}); err != nil {
					b.Fatal(err)
				}
				r.took()
			}
		})
	}
}
