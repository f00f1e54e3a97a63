//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"

	"github.com/portald/portald/integration/topology"
)

func (b *bed) manifests(services int) error {
	if err := os.MkdirAll(b.manifest(""), 0o755); err != nil {
		return err
	}
	var all, targets strings.Builder
	ports := []port{{"echo", "TCP", echoPort}, {"echo-udp", "UDP", echoPort}, {"bulk", "TCP", bulkPort},
		{"bulk-udp", "UDP", bulkPort}, {"source", "TCP", sourcePort}}
	object(&all, "measured", netip.MustParseAddr(vip), ports, b.endpoints(measured, 0))
	for i, a := range drawn(services) {
		object(&all, fmt.Sprint("further-", i), a, ports[:1], b.endpoints(further+i, 0))
		fmt.Fprintln(&targets, netip.AddrPortFrom(a, echoPort))
	}
	if err := os.WriteFile(b.targets(), []byte(targets.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(b.manifest("services.json"), []byte(all.String()), 0o644)
}

// port is a service port with the same number in the pod.
type port struct {
	name, proto string
	number      int
}

// object writes a Service and its EndpointSlice as JSON: parsing YAML would dominate the start.
func object(w *strings.Builder, name string, vip netip.Addr, ports []port, endpoints []endpoint) {
	fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "%[1]s", "namespace": "bench"},
 "spec": {"type": "ClusterIP", "clusterIP": "%[2]s", "clusterIPs": ["%[2]s"], "ports": [%[3]s]}}
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
 "metadata": {"name": "%[1]s-1", "namespace": "bench", "labels": {"kubernetes.io/service-name": "%[1]s"}},
 "ports": [%[4]s], "endpoints": [%[5]s]}
`, name, vip,
		listed(ports, func(p port) string {
			const text = `{"name": "%s", "protocol": "%s", "port": %d, "targetPort": %[3]d}`
			return fmt.Sprintf(text, p.name, p.proto, p.number)
		}),
		listed(ports, func(p port) string {
			return fmt.Sprintf(`{"name": "%s", "protocol": "%s", "port": %d}`, p.name, p.proto, p.number)
		}),
		listed(endpoints, func(e endpoint) string {
			const conditions = `"conditions": {"ready": true, "serving": true, "terminating": false}`
			return fmt.Sprintf(`{"addresses": ["%s"], "nodeName": "%s", %s}`, e.at, e.node, conditions)
		}))
}

// listed joins the elements of a JSON list.
func listed[T any](all []T, text func(T) string) string {
	var out []string
	for _, one := range all {
		out = append(out, text(one))
	}
	return strings.Join(out, ", ")
}

// drawn returns n different random addresses of the service range, the same ones in every run.
func drawn(n int) []netip.Addr {
	taken := map[netip.Addr]bool{netip.MustParseAddr(vip): true, netip.MustParseAddr(changingVIP): true}
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]netip.Addr, 0, n)
	base := netip.MustParsePrefix(topology.ClusterIPs4).Addr().As4()
	for len(all) < n {
		k := random.Uint32N(1 << 20)
		a := netip.AddrFrom4([4]byte{base[0], base[1] | byte(k>>16), byte(k >> 8), byte(k)})
		if !taken[a] {
			taken[a] = true
			all = append(all, a)
		}
	}
	return all
}
