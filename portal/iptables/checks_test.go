package iptables

import (
	"strings"
	"testing"
)

// Neighbouring ports are one rule, and one jump has the range of all.
func TestCheckRules(t *testing.T) {
	names, err := newChains("KUBE", "")
	if err != nil {
		t.Fatal(err)
	}
	r := renderer{chains: names}
	for _, c := range []struct {
		ports        []uint16
		want, within string
	}{
		{nil, "", ""},
		{[]uint16{30001}, "30001", "30001"},
		{[]uint16{30001, 30002, 32000}, "30001:30002 32000", "30001:32000"},
		{[]uint16{65535, 1}, "1 65535", "1:65535"},
	} {
		open := &checks{}
		for _, port := range c.ports {
			open.set(port, true)
		}
		open.set(40000, true)
		open.set(40000, false)
		open.settle()
		var want strings.Builder
		for list := range strings.FieldsSeq(c.want) {
			want.WriteString("-A KUBE-ACCEPT -p tcp -m tcp --dport " + list + " -j ACCEPT\n")
		}
		if got := r.checkRules(open); got != want.String() {
			t.Errorf("%v:\n%s", c.ports, got)
		}
		jumps := r.checkJumps(open)
		within := func(j jump) bool { return strings.Contains(j.match, "--dport "+c.within+" ") }
		if len(jumps) != min(1, len(c.ports)) || len(jumps) > 0 && !within(jumps[0]) {
			t.Errorf("%v: jumps %v", c.ports, jumps)
		}
	}
}
