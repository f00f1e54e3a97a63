package tenants

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/portal/service"
)

// tenant generates Services that pass the validation of an API server (pkg/apis/core/validation of Kubernetes), with a
// status from a cloud provider. Cluster IPs and node ports are unique, as the API server allocates them.
type tenant struct {
	*rand.Rand
	namespace string
	nodePorts map[int32]bool
}

func newTenant(seed uint64) *tenant {
	r := rand.New(rand.NewPCG(seed, 1))
	t := &tenant{Rand: r, nodePorts: map[int32]bool{}}
	t.namespace = t.label(63)
	return t
}

func (t *tenant) one(n int) bool { return t.IntN(n) == 0 }

func pick[T any](t *tenant, from ...T) T { return from[t.IntN(len(from))] }

// label is a DNS label, often of maximum length.
func (t *tenant) label(most int) string {
	n := pick(t, 1, 2, 7, most)
	var b strings.Builder
	for range n {
		b.WriteByte("abcdefghijklmnopqrstuvwxyz"[t.IntN(26)])
	}
	text := []byte(b.String())
	for i := 1; i < n-1; i++ {
		if t.one(4) {
			text[i] = "-0123456789"[t.IntN(11)]
		}
	}
	return string(text)
}

// service is the tenant's Service number n.
func (t *tenant) service(n int) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: t.namespace, Name: fmt.Sprintf("s%d-%s", n, t.label(50)), UID: types.UID(fmt.Sprint(n)),
		ResourceVersion:   fmt.Sprint(t.Uint64()),
		CreationTimestamp: metav1.NewTime(time.Unix(1000+int64(n), 0)), Annotations: t.annotations(),
	}}
	svc.Spec.Type = pick(t, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer,
		corev1.ServiceTypeLoadBalancer)
	svc.Spec.ClusterIPs = []string{fmt.Sprintf("10.96.%d.%d", 1+n/200, 1+n%200)}
	if t.one(2) {
		svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, fmt.Sprintf("fd00:96::%x", 1+n))
	}
	svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	svc.Spec.Ports = t.ports(svc.Spec.Type != corev1.ServiceTypeClusterIP)
	for range pick(t, 0, 0, 1, 3, 300) {
		svc.Spec.ExternalIPs = append(svc.Spec.ExternalIPs, t.address())
	}
	if t.one(3) {
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		timeout := pick[int32](t, 1, 10800, 86400)
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout},
		}
	}
	svc.Spec.InternalTrafficPolicy = new(pick(t, corev1.ServiceInternalTrafficPolicyCluster,
		corev1.ServiceInternalTrafficPolicyLocal))
	if svc.Spec.Type != corev1.ServiceTypeClusterIP {
		svc.Spec.ExternalTrafficPolicy = pick(t, corev1.ServiceExternalTrafficPolicyCluster,
			corev1.ServiceExternalTrafficPolicyLocal)
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		t.balance(svc)
	}
	return svc
}

func (t *tenant) annotations() map[string]string {
	return map[string]string{
		"portald.io/mode":           pick(t, "", "kernel", "kernel", "userspace", "both"),
		"portald.io/client-address": pick(t, "", "node", "proxy-v2", "x"),
		"portald.io/algorithm":      pick(t, "", "round-robin", "source-hash", "random", "least-connections", "maglev"),
		"portald.io/slow-start":     pick(t, "", "", "30s", "-1s"),
		"portald.io/retries":        pick(t, "", "0", "15", "-1", "99999999999999999999"),
		"portald.io/hedge-after":    pick(t, "", "1ns", "20ms", "0", "soon"),
		"portald.io/idle-timeout":   pick(t, "", "1ns", "9000h", "1"),

		"portald.io/eject-after":  pick(t, "", "0", "1", "100", "101", "never"),
		"portald.io/eject-on":     pick(t, "", "connect", "closed-early,connect", "closed-early,closed-early", ",", "all"),
		"portald.io/retry-budget": pick(t, "", "0", "1", "10000", "10001", "20%"),
		"portald.io/retry-on": pick(t, "", "connect", "reset-before-response", "reset-before-response,connect",
			"reset-before-response,reset-before-response", ",", "always"),
		"portald.io/wait-for-endpoint": pick(t, "", "1ns", "30s", "1000h", "1001h", "0", "-1s"),
		"portald.io/wake": pick(t, "", "deployment/cart=1", "statefulset/a.b=100", "replicaset/cart=101", "deployment/=1",
			"deployment/../../nodes/a=1", "deployment/"+t.label(63)+"=1", "pod/cart=1", "cart"),
		"portald.io/removed-endpoint": pick(t, "", "keep", "close-when-idle", "reset-after=0s", "reset-after=1000h",
			"reset-after=", "reset"),
		"portald.io/dead-peer-timeout":          pick(t, "", "1ns", "3m", "1000h", "0", "x"),
		"portald.io/max-age":                    pick(t, "", "1s", "10m±20%", "1000h+-50%", "0", "1ms", "10m±51%", "±"),
		"portald.io/max-connections-per-client": pick(t, "", "0", "1", "2147483647", "-1", "2147483648"),
		"portald.io/connection-rate":            pick(t, "", "0", "1", "1000000", "1000001", "1/s"),
		"portald.io/connection-rate-per-client": pick(t, "", "0", "1", "1000000", "1000001", "-1"),
		"portald.io/debug-until": pick(t, "", "", "2020-01-01T00:00:00Z", "2100-01-01T00:00:00+14:00",
			time.Now().Add(time.Hour).Format(time.RFC3339), "10m", "2026-11-28 10:20"),
		"portald.io/max-waiting":  pick(t, "", "0", "1", "100000", "100001", "-1"),
		"portald.io/keep-payload": pick(t, "", "badly-ended", "off", "all", "badly-ended,off"),
	}
}

// A tenant sets all that a Service may ask for of its endpoints and clients.
func TestTenantsSetEverySetting(t *testing.T) {
	const tenants = 200
	others := map[string]bool{ // of how Services are carried and recorded, with values that all are alike
		"connect-timeouts": true, "half-close-timeout": true, "udp-timeout": true, "max-connections": true,
		"connection-log": true, "connection-log-sample": true, "kernel-records": true,
	}
	for _, s := range service.Settings() {
		if others[s.Name] {
			continue
		}
		valid, invalid := 0, 0
		for seed := range uint64(tenants) {
			text := newTenant(seed).annotations()["portald.io/"+s.Name]
			switch is := s.Value.Read(text, &service.Port{}); {
			case text == "":
			case is:
				valid++
			default:
				invalid++
			}
		}
		if valid < tenants/10 || invalid < tenants/10 {
			t.Errorf("%s: %d valid values, %d others, of %d", s.Name, valid, invalid, tenants)
		}
	}
}

func (t *tenant) ports(nodePorts bool) (out []corev1.ServicePort) {
	type key struct {
		corev1.Protocol
		int32
	}
	seen := map[key]bool{}
	n := pick(t, 1, 1, 2, 5, 40)
	for i := range n {
		p := corev1.ServicePort{Protocol: pick(t, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
			Port: pick(t, 1, 80, 53, 65535, int32(1+t.IntN(65535)))}
		if k := (key{p.Protocol, p.Port}); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		if n > 1 {
			p.Name = fmt.Sprintf("p%d%s", i, t.label(60))
		}
		p.TargetPort = pick(t, intstr.FromInt32(p.Port), intstr.FromInt32(8080), intstr.FromString("web"))
		if nodePorts {
			p.NodePort = int32(30000 + t.IntN(2768))
			for t.nodePorts[p.NodePort] {
				p.NodePort = int32(30000 + t.IntN(2768))
			}
			t.nodePorts[p.NodePort] = true
		}
		out = append(out, p)
	}
	return out
}

// address is a valid external IP: not loopback, link-local or unspecified.
func (t *tenant) address() string {
	return pick(t, "10.96.0.1", "10.96.0.2", "239.1.2.3", "255.255.255.255", "240.0.0.1", "0.0.0.1",
		"::ffff:198.51.100.7", "ff05::1", "fd00:96::1", "64:ff9b::c633:6407",
		"2001:db8::"+fmt.Sprintf("%x", t.IntN(1<<16)), fmt.Sprintf("198.51.100.%d", t.IntN(256)),
		fmt.Sprintf("198.51.100.%d", t.IntN(256)))
}

// balance adds a load balancer IP to the Service, with source ranges.
func (t *tenant) balance(svc *corev1.Service) {
	for range pick(t, 0, 1, 2, 20) {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: t.address()})
	}
	strange := t.one(4)
	for range pick(t, 0, 1, 43, 64, 1000) {
		text := pick(t, "0.0.0.0/0", "::/0", "10.0.0.0/8", "255.255.255.255/32", " 172.16.0.1/12 ", "::ffff:10.0.0.0/104")
		if !strange || !t.one(8) {
			addr := netip.AddrFrom4([4]byte{byte(1 + t.IntN(223)), byte(t.IntN(256)), byte(t.IntN(256)), byte(t.IntN(256))})
			text = netip.PrefixFrom(addr, pick(t, 32, 32, 29, 31, 24)).String()
		}
		svc.Spec.LoadBalancerSourceRanges = append(svc.Spec.LoadBalancerSourceRanges, text)
	}
	if t.one(2) && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		svc.Spec.HealthCheckNodePort = int32(32768 + t.IntN(1000))
	}
}

// slices generates the endpoints of a Service, up to a thousand per slice. Services with many ports or with affinity,
// which need rules per endpoint, get fewer: ten thousand endpoints take iptables 5 s for each port.
func (t *tenant) slices(svc *corev1.Service, many int) (out []*discoveryv1.EndpointSlice) {
	if many /= len(svc.Spec.Ports); svc.Spec.SessionAffinity != "" {
		many /= 10
	}
	left := pick(t, 0, 1, 2, min(100, many), many)
	for i := 0; left > 0 || i == 0; i++ {
		s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
			Namespace: svc.Namespace, Name: fmt.Sprintf("%s-%d", svc.Name, i), ResourceVersion: fmt.Sprint(t.Uint64()),
			Labels: map[string]string{discoveryv1.LabelServiceName: svc.Name},
		}}
		if t.one(4) {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		for _, p := range svc.Spec.Ports {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Protocol: new(p.Protocol),
				Port: new(pick(t, 1, 8080, 65535, p.Port))})
		}
		for range min(left, 1000) {
			s.Endpoints = append(s.Endpoints, t.endpoint(s.AddressType))
			left--
		}
		out = append(out, s)
	}
	return out
}

func (t *tenant) endpoint(of discoveryv1.AddressType) discoveryv1.Endpoint {
	addr := fmt.Sprintf("10.244.%d.%d", t.IntN(64), t.IntN(256))
	if t.one(50) {
		addr = pick(t, "10.96.0.1", "239.1.2.3", "255.255.255.255", "0.0.0.1", "198.51.100.7", "240.0.0.1")
	}
	if of == discoveryv1.AddressTypeIPv6 {
		addr = pick(t, "ff05::1", "fd00:96::1", fmt.Sprintf("fd00:244::%x", t.IntN(1<<16)))
	}
	return discoveryv1.Endpoint{
		Addresses: []string{addr}, NodeName: pick(t, nil, new("here"), new("elsewhere")), Zone: pick(t, nil, new("z1")),
		Conditions: discoveryv1.EndpointConditions{Ready: new(t.one(2)), Serving: pick(t, nil, new(true)),
			Terminating: pick(t, nil, new(true))},
	}
}
