package cluster

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndpointSlice creates a slice of a Service without a selector.
func (n *Namespace) EndpointSlice(s *discoveryv1.EndpointSlice) {
	n.Helper()
	_, err := n.cluster.Admin.DiscoveryV1().EndpointSlices(n.name).Create(n.Context(), s, metav1.CreateOptions{})
	n.must(err)
}

// Endpoints are those of all EndpointSlices of a Service, sorted, each with its state: "10.244.0.2 ready", "… unready",
// "… serving" (it terminates, but serves) or "… terminating".
func (n *Namespace) Endpoints(service string) ([]string, error) {
	list, err := n.cluster.Admin.DiscoveryV1().EndpointSlices(n.name).List(n.Context(),
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			all = append(all, e.Addresses[0]+" "+state(e.Conditions))
		}
	}
	slices.Sort(all)
	return all, nil
}

// state is the word for an endpoint's conditions.
func state(c discoveryv1.EndpointConditions) string {
	is := func(b *bool) bool { return b != nil && *b }
	switch {
	case is(c.Ready):
		return "ready"
	case is(c.Terminating) && is(c.Serving):
		return "serving"
	case is(c.Terminating):
		return "terminating"
	default:
		return "unready"
	}
}

// WaitEndpoints waits until a Service has these endpoints and no others, in any order.
func (n *Namespace) WaitEndpoints(service string, want ...string) {
	n.Helper()
	want = slices.Sorted(slices.Values(want))
	var got []string
	var err error
	defer func() {
		n.Helper()
		if n.Failed() {
			n.Logf("%s/%s has endpoints %s (%v), want %s", n.name, service, strings.Join(got, ", "), err,
				strings.Join(want, ", "))
		}
	}()
	eventually(n, "the endpoints of "+service, func() bool {
		got, err = n.Endpoints(service)
		return slices.Equal(got, want)
	})
}
