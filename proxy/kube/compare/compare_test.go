package compare

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/translate"
)

// Each Service of the dump is served otherwise for one reason, or as by kube-proxy (the first).
const dump = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}
- {apiVersion: example.org/v1, kind: Unheard, metadata: {name: x}}
- apiVersion: v1
  kind: Service
  metadata: {name: plain, namespace: shop}
  spec: {clusterIP: 10.96.0.1, selector: {app: plain}, ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: headless, namespace: shop}
  spec: {clusterIP: None, selector: {app: plain}, ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: external, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}
  spec: {clusterIP: 10.96.0.2, externalIPs: [203.0.113.1, 198.51.100.1], ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: rival, namespace: aaa, creationTimestamp: "2026-01-03T00:00:00Z"}
  spec: {clusterIP: 10.96.0.3, externalIPs: [203.0.113.1], ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: local, namespace: shop}
  spec:
    {type: LoadBalancer, clusterIP: 10.96.0.4, externalTrafficPolicy: Local, loadBalancerSourceRanges: [192.0.2.0/24],
     ports: [{port: 80}]}
  status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}
- apiVersion: v1
  kind: Service
  metadata: {name: sticky, namespace: shop}
  spec: {clusterIP: 10.96.0.5, sessionAffinity: ClientIP, ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: guarded, namespace: shop}
  spec: {clusterIP: 10.96.0.6, selector: {app: db}, ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: guarded, namespace: other}
  spec: {clusterIP: 10.96.0.7, selector: {app: db}, ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: outside, namespace: shop}
  spec: {clusterIP: 10.96.0.8, ports: [{port: 80}]}
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: outside-1, namespace: shop, labels: {kubernetes.io/service-name: outside}}
  addressType: IPv4
  ports: [{port: 80}]
  endpoints: [{addresses: [198.51.100.77]}]
- apiVersion: v1
  kind: Pod
  metadata: {name: db-0, namespace: shop, labels: {app: db, tier: back}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: back, namespace: shop}
spec: {podSelector: {matchLabels: {tier: back}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: everyone, namespace: shop}
spec: {podSelector: {}, ingress: [{}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: clients, namespace: web}
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress:
  - to:
    - {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}, podSelector: {matchLabels: {app: db}}}
    - {ipBlock: {cidr: 198.51.100.0/24}}
`

func compared(t *testing.T, opts Options) (Result, string) {
	t.Helper()
	objects, err := ReadFiles([]string{"-"}, strings.NewReader(dump))
	if err != nil {
		t.Fatal(err)
	}
	r := Compare(objects, opts)
	var lines []string
	for _, d := range r.Differences {
		lines = append(lines, d.Service.String()+" "+d.Where())
	}
	return r, strings.Join(lines, "\n")
}

func TestUserspace(t *testing.T) {
	r, got := compared(t, Options{ClientAddress: service.AddressNode})
	want := `aaa/rival spec.externalIPs[0]
shop/external spec.externalIPs[0]
shop/external spec.externalIPs[1]
shop/guarded networkpolicy shop/back spec.ingress
shop/guarded networkpolicy web/clients spec.egress
shop/local spec.externalTrafficPolicy
shop/local spec.loadBalancerSourceRanges
shop/outside networkpolicy web/clients spec.egress
shop/sticky spec.sessionAffinity`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if r.Services != 8 || r.Userspace != 8 || len(r.Missing) > 0 {
		t.Errorf("%+v", r)
	}
}

// In kernel mode, with external IPs allowed, only the address that two Services claim is left.
func TestKernel(t *testing.T) {
	r, got := compared(t, Options{MaxBound: 1000, Translate: translate.Options{
		Mode: service.ModeKernel, ExternalIPs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
	}})
	if got != "aaa/rival ExternalIP" || r.Userspace != 0 || !strings.Contains(r.Differences[0].Advice, "shop/external") {
		t.Errorf("%s: %+v", got, r)
	}
}

// Endpoints that see the client's address tell clients apart, but what a client may connect to is still the node.
func TestTransparent(t *testing.T) {
	_, got := compared(t, Options{ClientAddress: service.AddressTransparent})
	if strings.Contains(got, "spec.ingress") || strings.Contains(got, "spec.externalTrafficPolicy") ||
		!strings.Contains(got, "spec.egress") {
		t.Error(got)
	}
}

func TestAffinityOfManyEndpoints(t *testing.T) {
	const sliced = `
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {clusterIP: 10.96.0.1, sessionAffinity: ClientIP, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}, {addresses: [10.0.0.3]}]
`
	for bound, want := range map[int]int{2: 1, 3: 0} {
		objects, err := ReadFiles([]string{"-"}, strings.NewReader(sliced))
		if err != nil {
			t.Fatal(err)
		}
		r := Compare(objects, Options{MaxBound: bound, Translate: translate.Options{Mode: service.ModeKernel}})
		if len(r.Differences) != want {
			t.Errorf("at most %d: %+v", bound, r.Differences)
		}
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "read manifests: "},
		{write("bad.txt", "a: b\n---\n{"), "document 1 (line 1): "},
		{write("cut.txt", "---\n{"), "document 1 (line 2): the file ends inside it"},
		{write("utf16.txt", "\xff\xfea\x00\n\x00:"), "document 1 (line 1): line 2: is not UTF-16LE"},
		{write("empty.txt", "---\n"), "they have no Service"},
		{write("field.txt", "apiVersion: v1\nkind: Service\nspec: {ports: x}\n"), "document 1"},
	} {
		if _, err := ReadFiles([]string{c.path}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
}

// A folder is read file by file; what a dump leaves out is named.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.YML"), []byte(strings.ReplaceAll(text, "\n", "\r")), 0o644); err != nil {
		t.Fatal(err)
	}
	objects, err := ReadFiles([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects.Services) != 1 || !slices.ContainsFunc(objects.Missing, func(m string) bool {
		return strings.HasPrefix(m, "NetworkPolicies: none")
	}) {
		t.Errorf("%+v", objects)
	}
}
