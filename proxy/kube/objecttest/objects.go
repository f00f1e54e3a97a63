package objecttest

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Objects decodes YAML documents of one Service and its slices.
func Objects(tb testing.TB, text string) (svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice) {
	tb.Helper()
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return svc, endpointSlices
		}
		check(tb, err)
		if strings.Contains(string(document), "kind: EndpointSlice") {
			slice := &discoveryv1.EndpointSlice{}
			check(tb, yaml.UnmarshalStrict(document, slice))
			endpointSlices = append(endpointSlices, slice)
		} else {
			svc = &corev1.Service{}
			check(tb, yaml.UnmarshalStrict(document, svc))
			svc.Namespace = cmp.Or(svc.Namespace, corev1.NamespaceDefault)
		}
	}
}

// Service is a Service cart in shop whose spec is the given lines.
func Service(spec string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: shop}\n" + strings.TrimLeft(spec, "\n") + "\n"
}

// Slice is a slice of cart.
func Slice(name, family, rest string) string {
	return "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: " + family +
		"\nmetadata: {name: " + name + ", namespace: shop, labels: {kubernetes.io/service-name: cart}}\n" +
		strings.TrimLeft(rest, "\n") + "\n"
}

// Node is n1 in a zone, with addresses and pod CIDRs, some of which cannot be read.
func Node(zone string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Labels = "n1", map[string]string{"topology.kubernetes.io/zone": zone}
	n.Spec.PodCIDRs = []string{"10.244.1.0/24", "fd01::/64", "x"}
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP, Address: "x"},
	}
	return n
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Messages are the texts logged at a level.
func Messages(hook *logtest.Hook, level logrus.Level) (out []string) {
	for _, e := range hook.AllEntries() {
		if e.Level == level {
			out = append(out, e.Message)
		}
	}
	return out
}
