package faults

import (
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

const manyOpen = 48

// opensMany opens connections that stay open.
func opensMany(n *node) {
	n.Helper()
	for range manyOpen {
		n.Open(bed.HostPort(bed.IP4, 80))
	}
}

// unevenly is what explain says of uneven load, empty if it says nothing; the verdict is good in any case.
func (n *node) unevenly() string {
	n.Helper()
	r := n.explain("shop/cart:http")
	if r.Verdict.Status != explain.Good {
		n.Errorf("uneven load is no fault: %+v\n%s", r.Verdict, lines(r))
	}
	for _, s := range r.Sections {
		if s.Title == "Uneven load" {
			return lines(explain.Report{Sections: []explain.Section{s}})
		}
	}
	return ""
}

// Load that is uneven is explained by what has made it so, in each mode, and even load is not.
func TestUnevenLoad(t *testing.T) {
	for _, m := range bed.Modes() {
		t.Run(m.Name, func(t *testing.T) {
			start := func(t *testing.T, change func(*bed.Service)) (*node, bed.Service) {
				b := bed.New(t)
				b.ServePods(0, 1, 2)
				cart := b.Cart(0, 1)
				cart.Annotations = []string{"portald.io/algorithm: round-robin"}
				change(&cart)
				return &node{Bed: b, daemon: b.Start(cart, m.Args...)}, cart
			}
			t.Run("an endpoint came later", func(t *testing.T) {
				n, cart := start(t, func(*bed.Service) {})
				opensMany(n)
				if text := n.unevenly(); text != "" {
					n.Errorf("load is even:\n%s", text)
				}
				cart.Pods = n.Endpoints(0, 1, 2)
				n.daemon.Apply(cart)
				n.says("10.244.0.4:8080 (pod shop/pod2) has 0, and an even share is 16", "10.244.0.4:8080 came ",
					"portald.io/max-age: 10m±20%")
			})
			t.Run("affinity", func(t *testing.T) {
				n, _ := start(t, func(s *bed.Service) { s.Affinity, s.Annotations = 600, nil })
				opensMany(n)
				n.says("has 48 of the 48 open connections", "ClientIP affinity: ", "48 of those to ", "sessionAffinity: None")
			})
		})
	}
}

// says checks what is said of uneven load.
func (n *node) says(parts ...string) {
	n.Helper()
	text := n.unevenly()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			n.Errorf("no %q in\n%s", part, text)
		}
	}
}
