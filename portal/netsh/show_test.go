package netsh

import (
	"strings"
	"testing"

	"github.com/portald/portald/portal"
)

// The addresses of portals are shown as the host has them, and those that it lacks are named.
func TestShow(t *testing.T) {
	inTime(t, func(r *rig) {
		p := clusterIP("10.96.0.1:80 shop/cart")
		r.replace(p)
		mine := []portal.Portal{p, clusterIP("10.96.0.9:80 shop/cart")}
		shown, err := r.Show(t.Context(), mine)
		if err != nil || len(shown.Rules) != 1 || shown.Rules[0].Text != "10.96.0.1: preferred" ||
			!strings.Contains(strings.Join(shown.Missing, "\n"), "address 10.96.0.9 of interface") {
			t.Errorf("%v, %+v", err, shown)
		}
	})
}
