package translate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portald/portald/proxy/service"
)

// Object is what is kept of an object from the moment it arrives: what translations need, read once. It is immutable.
type Object interface {
	metav1.ObjectMetaAccessor // by which client-go's stores find the name
	Key() Key
	version() string
}

// Trim reads an object of a kind that concerns us; nil for others.
func Trim(object any, opts Options) Object {
	switch o := object.(type) {
	case Object:
		return o
	case *corev1.Service:
		return trimService(o, opts)
	case *discoveryv1.EndpointSlice:
		return trimSlice(o, opts)
	case *corev1.Node:
		return &trimmedNode{aboutOf(KindNode, o), nodeOf(o)}
	}
	return nil
}

// about is which object it is, in which state.
type about struct {
	id              Key
	resourceVersion string // empty outside an API server
}

func aboutOf(kind Kind, o metav1.Object) about {
	return about{Key{kind, o.GetNamespace(), o.GetName()}, o.GetResourceVersion()}
}

func (a *about) Key() Key        { return a.id }
func (a *about) version() string { return a.resourceVersion }

// GetObjectMeta implements metav1.ObjectMetaAccessor, as far as names go.
func (a *about) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: a.id.Namespace, Name: a.id.Name}
}

// trimmedNode is a Node.
type trimmedNode struct {
	about
	node Node
}

// trimmedService is a Service without the endpoints behind its ports.
type trimmedService struct {
	about
	uid      types.UID
	served   bool            // it is this proxy's to serve
	ports    []*service.Port // by name, without endpoints
	problems []Problem
}

func trimService(svc *corev1.Service, opts Options) *trimmedService {
	out := &trimmedService{about: aboutOf(KindService, svc), uid: svc.UID, served: served(svc, opts)}
	if !out.served {
		return out
	}
	var r report
	on := r.on(out.id)
	fronts := frontendsOf(svc, opts, on)
	common := service.Port{
		Created: svc.CreationTimestamp.Time, Affinity: affinityOf(svc, on), SourceRanges: fronts.sourceRanges,
	}
	readTraffic(svc, &common, on)
	readAnnotations(svc.Annotations, &common, on)
	for _, sp := range servicePorts(svc, on) {
		port := common
		port.Name, port.Exposures, port.Policy = sp.name, fronts.of(sp), policyFor(sp.name, common.Policy, on)
		if len(port.Exposures) > 0 {
			out.ports = append(out.ports, &port)
		}
	}
	if len(out.ports) == 0 && svc.Spec.ClusterIP == "" && len(svc.Spec.ClusterIPs) == 0 {
		on.add("spec.clusterIP", "", "is missing and nothing else leads here; write the address that clients dial")
	}
	slices.SortFunc(out.ports, func(a, b *service.Port) int { return a.Name.Compare(b.Name) })
	out.problems = r.problems
	return out
}

// served tells whether this proxy has to do with the Service at all.
func served(svc *corev1.Service, opts Options) bool {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Labels[LabelProxyName] != opts.ServiceProxyName {
		return false
	}
	if _, headless := svc.Labels[LabelHeadless]; headless {
		return false
	}
	return svc.Spec.ClusterIP != corev1.ClusterIPNone && !slices.Contains(svc.Spec.ClusterIPs, corev1.ClusterIPNone)
}

// trimmedSlice is an EndpointSlice.
type trimmedSlice struct {
	about
	owner     service.Name // without a Name when it is no Service's
	triggered time.Time    // when what led to this state happened; zero when nobody says
	ports     []slicePort
	endpoints []sliceEndpoint
	problems  []Problem
}

// trimSlice reads a slice. One of host names, or a headless one, has nothing in it.
func trimSlice(s *discoveryv1.EndpointSlice, opts Options) *trimmedSlice {
	out := &trimmedSlice{
		about:     aboutOf(KindEndpointSlice, s),
		owner:     service.Name{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]},
		triggered: triggerTime(s.Annotations),
	}
	if _, headless := s.Labels[LabelHeadless]; headless || s.AddressType == discoveryv1.AddressTypeFQDN {
		return out
	}
	var r report
	on := r.on(out.id)
	if s.AddressType == discoveryv1.AddressTypeIPv4 || s.AddressType == discoveryv1.AddressTypeIPv6 {
		out.ports, out.endpoints = slicePorts(s, on), sliceEndpoints(s, opts, on)
	} else {
		on.add("addressType", string(s.AddressType), "must be IPv4 or IPv6; the slice is not used")
	}
	out.problems = r.problems
	return out
}

func compareSlices(a, b *trimmedSlice) int { return cmp.Compare(a.id.Name, b.id.Name) }

// triggerTime reads when the change that a slice's newest state stands for happened; zero when that is not said.
func triggerTime(annotations map[string]string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, annotations[corev1.EndpointsLastChangeTriggerTime])
	if err != nil {
		return time.Time{}
	}
	return t
}
