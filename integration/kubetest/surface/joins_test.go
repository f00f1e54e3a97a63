package surface

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/proxy"
)

// joins is the list of endpoints that kube-proxy makes of two with one address, which proxy/kube/translate is compared
// with.
const joins = "../../../proxy/kube/translate/testdata/joins.txt"

// listed are the conditions that endpoints are listed with: ready, serving and terminating, of pods that run, start,
// end, and of Services that publish pods that are not ready.
var listed = [][3]bool{
	{true, true, false}, {true, false, false}, {false, false, false}, {false, true, true}, {false, false, true},
	{true, true, true},
}

// nodes of the endpoints; "here" is the proxy's own.
var nodes = []string{"here", "there", "nowhere"}

func TestJoins(t *testing.T) {
	var all []discovery.Endpoint
	for _, node := range nodes {
		for _, conditions := range listed {
			all = append(all, listedAt(node, conditions))
		}
	}
	text := bytes.NewBufferString("# What kube-proxy makes of two endpoints with one address: which it keeps, and how " +
		"many clients of a Cluster\n# and of a Local policy have. After an \"or\" is what it makes of them in another " +
		"order. Made by integration/kubetest/surface.\n")
	for i, a := range all {
		for _, b := range all[i+1:] {
			outcomes := []string{joined(a, b), joined(b, a)}
			fmt.Fprintf(text, "%s + %s = %s\n", name(a), name(b), strings.Join(slices.Compact(outcomes), " or "))
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(joins, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(joins)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("%s is not what kube-proxy does; UPDATE_GOLDEN=1 writes it, and portald may have to follow:\n%s",
			filepath.Base(joins), text)
	}
}

// listedAt is an endpoint of a slice; "nowhere" is without a node.
func listedAt(node string, conditions [3]bool) discovery.Endpoint {
	e := discovery.Endpoint{Addresses: []string{"10.1.0.1"}, Conditions: discovery.EndpointConditions{
		Ready: &conditions[0], Serving: &conditions[1], Terminating: &conditions[2],
	}}
	if node != "nowhere" {
		e.NodeName = &node
	}
	return e
}

// name is the node of an endpoint and its conditions.
func name(e discovery.Endpoint) string {
	node := "nowhere"
	if e.NodeName != nil {
		node = *e.NodeName
	}
	return node + words(*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating)
}

func words(ready, serving, terminating bool) (out string) {
	for _, w := range []struct {
		on   bool
		text string
	}{{ready, " ready"}, {serving, " serving"}, {terminating, " terminating"}} {
		if w.on {
			out += w.text
		}
	}
	return out
}

// joined returns kube-proxy's endpoints for those of one slice, in this order. It keeps no node, but whether that is
// here.
func joined(all ...discovery.Endpoint) string {
	port, protocol, number := "http", v1.ProtocolTCP, int32(80)
	changes := proxy.NewEndpointsChangeTracker(v1.IPv4Protocol, "here", nil, nil)
	changes.EndpointSliceUpdate(&discovery.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "cart-1", Labels: map[string]string{discovery.LabelServiceName: "cart"},
		},
		AddressType: discovery.AddressTypeIPv4, Endpoints: all,
		Ports: []discovery.EndpointPort{{Name: &port, Protocol: &protocol, Port: &number}},
	}, false)
	found := proxy.EndpointsMap{}
	found.Update(changes)
	kept := found[proxy.ServicePortName{
		NamespacedName: types.NamespacedName{Namespace: "shop", Name: "cart"}, Port: port, Protocol: protocol,
	}]
	cluster, local, _, _ := proxy.CategorizeEndpoints(kept, bothPolicies{}, "here", nil)
	out := "elsewhere"
	if kept[0].IsLocal() {
		out = "here"
	}
	return fmt.Sprintf("%s%s, %d and %d", out, words(kept[0].IsReady(), kept[0].IsServing(), kept[0].IsTerminating()),
		len(cluster), len(local))
}

// bothPolicies is a port of a Service with a Cluster and a Local policy.
type bothPolicies struct{ proxy.ServicePort }

func (bothPolicies) UsesClusterEndpoints() bool { return true }
func (bothPolicies) UsesLocalEndpoints() bool   { return true }
func (bothPolicies) String() string             { return "shop/cart:http" }
