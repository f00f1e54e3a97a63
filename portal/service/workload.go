package service

// Workload is a pod as the address of a client names it.
type Workload struct {
	Pod  string // "namespace/name"
	Node string
	Zone string // of the node
}
