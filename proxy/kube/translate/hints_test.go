package translate

import (
	"strings"
	"testing"

	"github.com/portald/portald/proxy/kube/objecttest"
)

// Each endpoint has the hints that are given for it; those at a + are near, at a - not hinted.
func TestHints(t *testing.T) {
	const both = "{forNodes: [{name: n1}], forZones: [{name: z1}]}"
	for _, c := range []struct {
		name      string
		zone      string
		endpoints string // condition and hints, a line each
		want      string
	}{
		{"none", "z1", "ready:\nready:", "++"},
		{"our zone", "z1", "ready: {forZones: [{name: z1}]}\nready: {forZones: [{name: z2}]}", "+-"},
		{"several zones", "z1", "ready: {forZones: [{name: z2}, {name: z1}, {name: z3}]}\nready: {forZones: [{name: " +
			"z2}, {name: z11}]}", "+-"},
		{"one without", "z1", "ready: {forZones: [{name: z1}]}\nready:", "++"},
		{"an empty hint", "z1", "ready: {forZones: [{name: z1}]}\nready: {forZones: []}", "++"},
		{"nothing for our zone", "z9", "ready: {forZones: [{name: z1}]}\nready: {forZones: [{name: z2}]}", "++"},
		{"a node without a zone", "", "ready: {forZones: [{name: z1}]}\nready: {forZones: [{name: ''}]}", "++"},
		{"our node before our zone", "z1", "ready: " + both + "\nready: {forNodes: [{name: n2}], forZones: [{name: z1}]}",
			"+-"},
		{
			"nothing for our node, but for its zone", "z1",
			"ready: {forNodes: [{name: n3}], forZones: [{name: z1}]}\nready: {forNodes: [{name: n2}], forZones: [{name: z2}]}",
			"+-",
		},
		{"a node hint missing, zone hints complete", "z1", "ready: " + both + "\nready: {forZones: [{name: z2}]}", "+-"},
		{"those that are not ready have no say", "z1",
			"ready: {forZones: [{name: z1}]}\ngone:\nready: {forZones: [{name: z2}]}", "++-"},
		{"our zone's is not ready", "z1", "gone: {forZones: [{name: z1}]}\nready: {forZones: [{name: z2}]}", "++"},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoints := ""
			for i, line := range strings.Split(c.endpoints, "\n") {
				state, hints, _ := strings.Cut(line, ":")
				endpoints += "\n- {addresses: [10.244.0." + string(rune('1'+i)) + "], conditions: {ready: " +
					map[string]string{"ready": "true", "gone": "false"}[state] + "}"
				if hints != "" {
					endpoints += ", hints:" + hints
				}
				endpoints += "}"
			}
			svc, back := objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: "+
				"80}]}")+objecttest.Slice("a", "IPv4", "ports: [{port: 80}]\nendpoints:"+endpoints))
			ports, _ := ports(svc, back, Options{NodeName: "n1", Zone: c.zone})
			got := ""
			for _, e := range ports[0].Endpoints {
				got += map[bool]string{true: "-", false: "+"}[e.NotHinted]
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Families have their hints each by themselves, and so do ports; an endpoint in two slices has the hints of the better
// one.
func TestHintsOfFamiliesPortsAndDuplicates(t *testing.T) {
	const spec = "spec: {clusterIPs: [10.96.0.7, 'fd00::7'], ports: [{name: a, port: 80}, {name: b, port: 81}]}"
	got, _ := translated(t, objecttest.Service(spec)+
		objecttest.Slice("s1", "IPv4", "ports: [{name: a, port: 80}]\nendpoints: [{addresses: [10.244.0.1], hints: "+
			"{forZones: [{name: z1}]}}, "+
			"{addresses: [10.244.0.2], hints: {forZones: [{name: z2}]}}]")+
		objecttest.Slice("s2", "IPv6", "ports: [{name: a, port: 80}]\nendpoints: [{addresses: ['fd01::1']}, {addresses: "+
			"['fd01::2'], hints: {forZones: [{name: z2}]}}]")+
		objecttest.Slice("s3", "IPv4", "ports: [{name: b, port: 81}]\nendpoints: [{addresses: [10.244.0.1], hints: "+
			"{forZones: [{name: z2}]}}, "+
			"{addresses: [10.244.0.3], hints: {forZones: [{name: z1}]}}]")+
		objecttest.Slice("s4", "IPv4", "ports: [{name: b, port: 81}]\nendpoints: [{addresses: [10.244.0.1], conditions: "+
			"{ready: false}, hints: {forZones: [{name: z1}]}}]"),
		Options{Zone: "z1"})
	const want = `shop/cart:a/tcp
  ClusterIP 10.96.0.7:80/tcp
  ClusterIP [fd00::7]:80/tcp
  -> 10.244.0.1:80 ready serving
  -> 10.244.0.2:80 ready serving not-hinted
  -> [fd01::1]:80 ready serving
  -> [fd01::2]:80 ready serving
shop/cart:b/tcp
  ClusterIP 10.96.0.7:81/tcp
  ClusterIP [fd00::7]:81/tcp
  -> 10.244.0.1:81 ready serving not-hinted
  -> 10.244.0.3:81 ready serving
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}
