package translate

// Kind is a kind of object that is read.
type Kind string

// The kinds that are read.
const (
	KindService       Kind = "Service"
	KindEndpointSlice Kind = "EndpointSlice"
	KindNode          Kind = "Node"
	KindPod           Kind = "Pod" // with Options.ClientPods
)
