package service

import (
	"strings"
	"testing"
)

func TestWakeForms(t *testing.T) {
	read := WakeUp{Set: func(p *Port, w Wake) { p.Policy.Wake = w }}
	for text, want := range map[string]Wake{
		"deployment/cart=1":      {"deployment", "cart", 1},
		"statefulset/db-0.x=100": {"statefulset", "db-0.x", 100},
		"replicaset/7=3":         {"replicaset", "7", 3},
	} {
		var p Port
		if !read.Read(text, &p) || p.Policy.Wake != want || want.String() != text {
			t.Errorf("%s is read as %v", text, p.Policy.Wake)
		}
	}
	for _, text := range []string{
		"", "cart=1", "deployment/cart", "deployment/=1", "deployment/cart=0", "deployment/cart=101", "deployment/cart=-1",
		"deployment/cart=1.5", "daemonset/cart=1", "Deployment/cart=1", "deployment/other/cart=1", "deployment/../x=1",
		"deployment/a%2fb=1", "deployment/cart?x=1", "deployment/-cart=1", "deployment/cart.=1", "deployment/C=1",
		"deployment/" + strings.Repeat("a", 254) + "=1", "deployment/é=1",
	} {
		var p Port
		if read.Read(text, &p) || p.Policy.Wake != (Wake{}) {
			t.Errorf("%q is read as %v", text, p.Policy.Wake)
		}
	}
}
