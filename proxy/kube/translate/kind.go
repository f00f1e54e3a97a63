package translate

// Kind is a kind of object that is read.
type Kind string

// The kinds that are read.
const (
	KindService       Kind = "Service"
	KindEndpointSlice Kind = "EndpointSlice"
	KindNode          Kind = "Node"
	KindServiceCIDR   Kind = "ServiceCIDR"
	KindPod           Kind = "Pod" // with Options.ClientPods
)

// Namespaced tells whether objects of the kind are in namespaces.
func (k Kind) Namespaced() bool { return k != KindNode && k != KindServiceCIDR }
