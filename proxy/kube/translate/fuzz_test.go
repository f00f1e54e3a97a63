package translate

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// FuzzTranslate: whatever the objects say, service ports keep to the contract of package service.
func FuzzTranslate(f *testing.F) {
	cluster, err := os.ReadFile("../manifests/testdata/cluster.yaml")
	check(f, err)
	var svcs, endpointSlices []string
	var list corev1.List
	check(f, yaml.Unmarshal(cluster, &list))
	for _, item := range list.Items {
		switch text := string(item.Raw); {
		case strings.Contains(text, `"kind":"Service"`):
			svcs = append(svcs, text)
		case strings.Contains(text, `"kind":"EndpointSlice"`):
			endpointSlices = append(endpointSlices, text)
		}
	}
	if len(svcs) == 0 || len(endpointSlices) == 0 {
		f.Fatal("no seeds")
	}
	for i := range svcs {
		f.Add(svcs[i], endpointSlices[i%len(endpointSlices)], "203.0.113.10")
	}
	f.Add(`{"metadata":{"annotations":{"portald.io/client-address":"proxy-v2","portald.io/retries":"3"}},"spec":{"type":"LoadBalancer",`+
		`"internalTrafficPolicy":"Local","externalTrafficPolicy":"Local","healthCheckNodePort":32000,"clusterIP":"10.96.0.7",`+
		`"ports":[{"port":53,"protocol":"UDP"}]}}`,
		`{"addressType":"IPv4","ports":[{"port":53,"protocol":"UDP"}],"endpoints":[`+
			`{"addresses":["10.0.0.1"],"hints":{"forZones":[{"name":"z0"}],"forNodes":[{"name":"n1"}]}}]}`, "203.0.113.10")
	f.Fuzz(func(t *testing.T, svcText, sliceText, address string) {
		var svc corev1.Service
		var slice discoveryv1.EndpointSlice
		if json.Unmarshal([]byte(svcText), &svc) != nil || json.Unmarshal([]byte(sliceText), &slice) != nil {
			return
		}
		svc.Spec.ExternalIPs = append(svc.Spec.ExternalIPs, address)
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
		everything, _ := parsePrefix("0.0.0.0/0")
		opts := Options{NodeName: "n1", Zone: "z0"}
		opts.ExternalIPs = append(opts.ExternalIPs, everything)
		ports, problems := ports(&svc, []*discoveryv1.EndpointSlice{&slice, &slice}, opts)
		for _, p := range problems {
			if p.Error() == "" {
				t.Error("an empty problem")
			}
		}
		for _, p := range ports {
			checkPort(t, p)
		}
		if !slices.IsSortedFunc(ports, func(a, b *service.Port) int { return a.Name.Compare(b.Name) }) {
			t.Error("ports out of order")
		}
	})
}

func checkPort(t *testing.T, p *service.Port) {
	if p.Name.Protocol == inet.UDP && p.Policy.ClientAddress == service.AddressProxyV2 || p.HealthCheckPort != 0 &&
		!p.ExternalLocal {
		t.Errorf("%+v", p)
	}
	if len(p.Exposures) == 0 || p.Affinity < 0 || p.Affinity.Seconds() > math.MaxInt32 {
		t.Errorf("%+v", p)
	}
	for i, e := range p.Exposures {
		addr := e.Frontend.Addr
		if addr.Port() == 0 || addr.Addr().Is4In6() || addr.Addr().IsUnspecified() != (e.Kind == service.NodePort) ||
			e.Kind != service.NodePort && unusable(addr.Addr()) != "" || e.Frontend.Protocol != p.Name.Protocol {
			t.Errorf("%s: %v", p.Name, e)
		}
		if i > 0 && p.Exposures[i-1].Frontend.Compare(e.Frontend) >= 0 {
			t.Errorf("%s: exposures not ordered, or one twice: %v", p.Name, p.Exposures)
		}
	}
	for _, family := range inet.Families() {
		ready := slices.ContainsFunc(p.Endpoints, func(e service.Endpoint) bool {
			return e.Ready && inet.FamilyOf(e.Addr.Addr()) == family
		})
		if near := p.Usable(family, service.ClusterScope); ready && (len(near) == 0 || !near[0].Ready) {
			t.Errorf("%s: hints leave out all: %v", p.Name, p.Endpoints)
		}
	}
	for i, e := range p.Endpoints {
		if e.Addr.Port() == 0 || e.Addr.Addr().Is4In6() || unusable(e.Addr.Addr()) != "" {
			t.Errorf("%s: endpoint %v", p.Name, e)
		}
		if i > 0 && p.Endpoints[i-1].Addr.Compare(e.Addr) >= 0 {
			t.Errorf("%s: endpoints not ordered, or one twice: %v", p.Name, p.Endpoints)
		}
	}
}
