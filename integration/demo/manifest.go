//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"text/template"
)

// Addresses and ports of the shop's Services.
const (
	cartIP     = "10.96.0.10"
	wishlistIP = "10.96.0.20"

	httpPort, dnsPort         = "80", "53"
	httpNodePort, dnsNodePort = "30080", "30053"
	podHTTP, podDNS           = "8080", "8053"
)

// shop is the content of the manifests: the Service cart with the listed pods, and the Service wishlist without pods.
type shop struct {
	Affinity   string // None or ClientIP
	Listed     []*pod
	Annotation string // of cart; empty: none
	Wishlist   bool   // the listed pods are endpoints of wishlist too, and not ready there
}

// with adds a pod to the EndpointSlice; without removes it.
func (s *shop) with(p *pod) { s.Listed = append(s.Listed, p) }

func (s *shop) without(p *pod) {
	s.Listed = slices.DeleteFunc(s.Listed, func(q *pod) bool { return q == p })
}

// write replaces the manifest file atomically, by rename from the parent directory, which is on the same file system.
func (s *shop) write(file string) error {
	var text bytes.Buffer
	if err := manifests.Execute(&text, s); err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(filepath.Dir(file)), "next.yaml")
	if err := os.WriteFile(next, text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(next, file)
}

var manifests = template.Must(template.New("shop").Parse(`apiVersion: v1
kind: Service
metadata:
  name: cart
  namespace: shop
{{- with .Annotation}}
  annotations: { {{- .}}}
{{- end}}
spec:
  type: NodePort
  clusterIP: ` + cartIP + `
  clusterIPs: [` + cartIP + `]
  sessionAffinity: {{.Affinity}}
  ports:
  - {name: http, protocol: TCP, port: ` + httpPort + `, targetPort: ` + podHTTP + `, nodePort: ` + httpNodePort + `}
  - {name: dns, protocol: UDP, port: ` + dnsPort + `, targetPort: ` + podDNS + `, nodePort: ` + dnsNodePort + `}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports:
- {name: http, protocol: TCP, port: ` + podHTTP + `}
- {name: dns, protocol: UDP, port: ` + podDNS + `}
endpoints:
{{- range .Listed}}
- addresses: [{{.Host.IPv4}}]
  conditions: {ready: true}
  targetRef: {kind: Pod, namespace: shop, name: {{.Name}}}
{{- else}} []
{{- end}}
---
apiVersion: v1
kind: Service
metadata: {name: wishlist, namespace: shop}
spec:
  clusterIP: ` + wishlistIP + `
  clusterIPs: [` + wishlistIP + `]
  ports:
  - {name: http, protocol: TCP, port: ` + httpPort + `}
  - {name: dns, protocol: UDP, port: ` + dnsPort + `}
{{- if .Wishlist}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: wishlist-1, namespace: shop, labels: {kubernetes.io/service-name: wishlist}}
addressType: IPv4
ports:
- {name: http, protocol: TCP, port: ` + podHTTP + `}
endpoints:
{{- range .Listed}}
- addresses: [{{.Host.IPv4}}]
  conditions: {ready: false}
  targetRef: {kind: Pod, namespace: shop, name: {{.Name}}}
{{- end}}
{{- end}}
`))
