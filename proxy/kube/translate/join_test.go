package translate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
)

// asListed is an endpoint of testdata/joins.txt, "here ready serving": each has a pod, a zone and a hint of its own.
type asListed struct{ state, pod string }

func (e asListed) yaml(addr string) string {
	state := strings.Fields(e.state)
	condition := func(word string) bool { return slices.Contains(state, word) }
	node := ""
	if state[0] != "nowhere" {
		node = ", nodeName: " + state[0]
	}
	return fmt.Sprintf("{addresses: ['%s']%s, zone: z-%[3]s, targetRef: {kind: Pod, name: %[3]s}, hints: {forZones: "+
		"[{name: z-%[3]s}]}, conditions: {ready: %v, serving: %v, terminating: %v}}",
		addr, node, e.pod, condition("ready"), condition("serving"), condition("terminating"))
}

// outcome is the one that is left of endpoints with one address, as joins.txt writes it. It fails where something of it
// is another one's.
func outcome(t *testing.T, ports []*service.Port, all []asListed) string {
	t.Helper()
	if len(ports) != 1 || len(ports[0].Endpoints) != 1 {
		t.Fatalf("%v is\n%s, want one endpoint", all, objecttest.Render(ports))
	}
	p, e := ports[0], ports[0].Endpoints[0]
	family := inet.FamilyOf(e.Addr.Addr())
	i := slices.IndexFunc(all, func(a asListed) bool { return "shop/"+a.pod == e.Pod })
	if i < 0 {
		t.Fatalf("%v is the pod %q", all, e.Pod)
	}
	own := strings.Fields(all[i].state)
	where := map[bool]string{true: "here", false: "elsewhere"}[e.Local]
	state := []string{strings.Replace(own[0], "nowhere", "", 1)}
	for _, c := range []struct {
		on   bool
		word string
	}{{e.Ready, "ready"}, {e.Serving, "serving"}, {e.Terminating, "terminating"}} {
		if c.on {
			where, state = where+" "+c.word, append(state, c.word)
		}
	}
	own[0] = e.Node
	if !slices.Equal(own, state) || e.Local != (e.Node == "here") || e.Zone != "z-"+all[i].pod {
		t.Errorf("of %v it is the pod %s, with what is another's: %+v", all, all[i].pod, e)
	}
	return fmt.Sprintf("%s, %d and %d", where, len(p.Usable(family, service.ClusterScope)),
		len(p.Usable(family, service.NodeScope)))
}

// slicesOf lists endpoints with one address in slices, one slice for each list, with names in their order.
func slicesOf(family string, each ...[]asListed) (text string) {
	addr := map[string]string{"IPv4": "10.244.0.1", "IPv6": "fd01::1"}[family]
	for i, all := range each {
		list := ""
		for _, e := range all {
			list += "\n- " + e.yaml(addr)
		}
		text += objecttest.Slice(fmt.Sprint("cart-", i), family, "ports: [{port: 80}]\nendpoints:"+list)
	}
	return text
}

const cartOfBoth = "spec: {clusterIPs: [10.96.0.7, 'fd00::7'], ports: [{port: 80}]}"

// Of two endpoints with one address kube-proxy keeps one, and so does portald, whatever the order. Where it depends on
// the order which one that is for kube-proxy, portald keeps the same one always.
func TestJoinsAsKubeProxyDoes(t *testing.T) {
	golden, err := os.ReadFile("testdata/joins.txt")
	check(t, err)
	cases := 0
	for line := range strings.Lines(string(golden)) {
		ends, theirs, is := strings.Cut(strings.TrimSpace(line), " = ")
		a, b, two := strings.Cut(ends, " + ")
		if !is || !two {
			continue
		}
		cases++
		first, second := asListed{a, "a"}, asListed{b, "b"}
		kept := ""
		for _, family := range []string{"IPv4", "IPv6"} {
			for _, each := range [][][]asListed{
				{{first}, {second}}, {{second}, {first}}, {{first, second}}, {{second, first}},
			} {
				svc, back := objecttest.Objects(t, objecttest.Service(cartOfBoth)+slicesOf(family, each...))
				joined, _ := ports(svc, back, Options{NodeName: "here"})
				ours := outcome(t, joined, []asListed{first, second})
				if !slices.Contains(strings.Split(theirs, " or "), ours) {
					t.Errorf("%s: %s, want %s (%s, slices %v)", ends, ours, theirs, family, each)
				}
				if kept != "" && kept != ours {
					t.Errorf("%s: %s, and %s in another order", ends, ours, kept)
				}
				kept = ours
			}
		}
	}
	if cases < 100 {
		t.Errorf("%d cases in testdata/joins.txt", cases)
	}
}

// Of three it is the same one in each order, with the hints that are its own.
func TestJoinsOfThree(t *testing.T) {
	here := asListed{"here terminating", "gone"}
	there := asListed{"there ready serving", "live"}
	starts := asListed{"here", "starts"}
	for _, order := range [][]asListed{
		{here, there, starts}, {here, starts, there}, {there, here, starts}, {there, starts, here}, {starts, here, there},
		{starts, there, here},
	} {
		for zone, hinted := range map[string]bool{"z-live": true, "z-gone": false} {
			objects := objecttest.Service(cartOfBoth) + slicesOf("IPv4", order[:1], order[1:2], order[2:]) +
				objecttest.Slice("other", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.2], hints: {forZones: "+
					"[{name: z-gone}]}}]")
			svc, back := objecttest.Objects(t, objects)
			joined, _ := ports(svc, back, Options{NodeName: "here", Zone: zone})
			e := joined[0].Endpoints[0]
			if e.Pod != "shop/live" || e.Local || e.Node != "there" || e.NotHinted == hinted {
				t.Errorf("%v in %s: %+v, want the live one", order, zone, e)
			}
		}
	}
}

// A leftover concerns the ports that it is listed for, and no other.
func TestJoinsOfOnePort(t *testing.T) {
	svc, back := objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: a, port: 80}, "+
		"{name: b, port: 81}]}")+
		objecttest.Slice("s1", "IPv4", "ports: [{name: a, port: 80}]\nendpoints: [{addresses: [10.244.0.1], nodeName: here, "+
			"targetRef: {kind: Pod, name: gone}, conditions: {ready: false, serving: false, terminating: true}}]")+
		objecttest.Slice("s2", "IPv4", "ports: [{name: a, port: 80}, {name: b, port: 81}]\nendpoints: [{addresses: "+
			"[10.244.0.1], nodeName: there, targetRef: {kind: Pod, name: live}}]"))
	joined, _ := ports(svc, back, Options{NodeName: "here"})
	const want = "shop/cart:a/tcp\n  ClusterIP 10.96.0.7:80/tcp\n  -> 10.244.0.1:80 ready serving shop/live there\n" +
		"shop/cart:b/tcp\n  ClusterIP 10.96.0.7:81/tcp\n  -> 10.244.0.1:81 ready serving shop/live there\n"
	if got := objecttest.Render(joined); got != want {
		t.Errorf("got\n%s", got)
	}
}
