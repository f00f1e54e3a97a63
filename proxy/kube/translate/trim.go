package translate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portald/portald/portal/service"
)

// Object is a trimmed Kubernetes object: the fields that translations need, parsed once. It is immutable.
type Object interface {
	metav1.ObjectMetaAccessor // for client-go's stores, which need the name
	Key() Key
	version() string
}

// Trim returns what is stored of a Service, EndpointSlice, Node, ServiceCIDR or Pod; nil for other kinds. An Object is
// returned as it is.
func Trim(object any, opts Options) Object {
	switch o := object.(type) {
	case Object:
		return o
	case *corev1.Service:
		return trimService(o, opts)
	case *discoveryv1.EndpointSlice:
		return trimSlice(o, opts)
	case *corev1.Node:
		return &trimmedNode{identityOf(KindNode, o), nodeOf(o)}
	case *networkingv1.ServiceCIDR:
		return trimServiceCIDR(o)
	case *corev1.Pod:
		return trimPod(o)
	}
	return nil
}

// identity is which object it is, in which version.
type identity struct {
	id              Key
	resourceVersion string // empty outside an API server
}

func identityOf(kind Kind, o metav1.Object) identity {
	return identity{Key{kind, o.GetNamespace(), o.GetName()}, o.GetResourceVersion()}
}

func (i *identity) Key() Key        { return i.id }
func (i *identity) version() string { return i.resourceVersion }

// GetObjectMeta implements metav1.ObjectMetaAccessor, as far as names go.
func (i *identity) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.id.Namespace, Name: i.id.Name}
}

// trimmedNode is a Node.
type trimmedNode struct {
	identity
	node Node
}

// trimmedService is a Service without the endpoints behind its ports.
type trimmedService struct {
	identity
	uid      types.UID
	served   bool            // by this proxy
	ports    []*service.Port // by name, without endpoints
	problems []Problem
	noHeader bool      // as lacksHeader
	debug    *debugged // nil: no annotation asks for it

	annotations map[string]string // of portald, with their prefix
}

func trimService(svc *corev1.Service, opts Options) *trimmedService {
	out := &trimmedService{identity: identityOf(KindService, svc), uid: svc.UID, served: served(svc, opts)}
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
	readAnnotations(svc.Annotations, &common, opts, on)
	out.annotations = ownAnnotations(svc.Annotations)
	if opts.NoRules {
		withoutRules(&common, on)
	}
	until := common.DebugUntil
	common.DebugUntil = nil
	mode := common.Mode.Or(opts.Mode).Or(service.ModeUserspace)
	served := servicePorts(svc, mode, opts, on)
	asked, told := common, r.clone()
	if mode == service.ModeKernel {
		inKernel(svc.Annotations, &common, opts, on)
	}
	for _, sp := range served {
		port := common
		port.Name, port.Exposures = sp.name, fronts.of(sp)
		if mode == service.ModeUserspace {
			port.Policy = policyFor(sp.name, common.Policy, on)
		}
		if len(port.Exposures) > 0 {
			out.ports = append(out.ports, &port)
		}
	}
	if len(out.ports) == 0 && svc.Spec.ClusterIP == "" && len(svc.Spec.ClusterIPs) == 0 {
		on.add("spec.clusterIP", "", "is missing, and there is no other address; write the one that clients connect to")
	}
	slices.SortFunc(out.ports, func(a, b *service.Port) int { return a.Name.Compare(b.Name) })
	out.problems, out.noHeader = on.all(), lacksHeader(mode, out.ports)
	if until != nil {
		out.debug = &debugged{*until, out.debugged(asked, until, told.on(out.id))}
	}
	return out
}

// debugged is what the annotation debug-until asks for. Whether it counts depends on the time, so a trimmedService has
// both states, and the Cache chooses.
type debugged struct {
	until   time.Time
	instead *trimmedService // is served until then
}

// debugged returns the Service as it is until a moment: in userspace mode, as far as that carries its ports. Common is
// what annotations ask for, and on has what was reported of other things than the mode.
func (s *trimmedService) debugged(common service.Port, until *time.Time, on objectReport) *trimmedService {
	out := *s
	out.ports, out.noHeader, out.debug = make([]*service.Port, len(s.ports)), false, nil
	for i, usual := range s.ports {
		out.ports[i] = usual
		if !service.ModeUserspace.Carries(usual.Name.Protocol) {
			continue // its clients would be refused
		}
		port := common
		port.Name, port.Exposures, port.Mode, port.DebugUntil = usual.Name, usual.Exposures, service.ModeUserspace, until
		port.Policy = policyFor(port.Name, common.Policy, on)
		out.ports[i] = &port
	}
	out.problems = on.all()
	return &out
}

// served tells whether this proxy serves the Service.
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
	identity
	owner     service.Name // Name is empty if it belongs to no Service
	triggered time.Time    // trigger time of the last change; zero: unknown
	ports     []slicePort
	endpoints []sliceEndpoint
	problems  []Problem
}

// trimSlice parses a slice. One of a headless Service has no ports and endpoints.
func trimSlice(s *discoveryv1.EndpointSlice, opts Options) *trimmedSlice {
	out := &trimmedSlice{
		identity:  identityOf(KindEndpointSlice, s),
		owner:     service.Name{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]},
		triggered: triggerTime(s.Annotations),
	}
	if _, headless := s.Labels[LabelHeadless]; headless {
		return out
	}
	var r report
	on := r.on(out.id)
	switch s.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		out.ports, out.endpoints = slicePorts(s, on), sliceEndpoints(s, opts, on)
	case discoveryv1.AddressTypeFQDN:
		on.add("addressType", string(s.AddressType), "no service proxy resolves names, kube-proxy neither: the slice is "+
			"ignored; write IP addresses, with addressType IPv4 or IPv6")
	default:
		on.add("addressType", string(s.AddressType), "must be IPv4 or IPv6; the slice is ignored")
	}
	out.problems = on.all()
	return out
}

// OwnerOf is the Service of an EndpointSlice. False: it is none, or one of no Service.
func OwnerOf(o Object) (Key, bool) {
	slice, ok := o.(*trimmedSlice)
	if !ok || slice.owner.Name == "" {
		return Key{}, false
	}
	return Key{KindService, slice.owner.Namespace, slice.owner.Name}, true
}

func compareSlices(a, b *trimmedSlice) int { return cmp.Compare(a.id.Name, b.id.Name) }

// triggerTime is when the last change of a slice was triggered; zero when that is unknown.
func triggerTime(annotations map[string]string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, annotations[corev1.EndpointsLastChangeTriggerTime])
	if err != nil {
		return time.Time{}
	}
	return t
}
