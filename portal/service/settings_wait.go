package service

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// waitSettings are about clients that come while there is no endpoint.
func waitSettings() []Setting {
	return []Setting{
		{
			Name: "wait-for-endpoint", Field: "waitForEndpoint",
			Value: Timeout{Never: true, Part: func(p *Port) *time.Duration { return &p.Policy.WaitForEndpoint }},
			Help: "let a new connection wait for this `TIME` if no endpoint is ready or answers, instead of " +
				"refusing it; 0: do not",
			About: "time that new connections wait if no endpoint is ready or answers, instead of being refused " +
				"([retries.md](retries.md))",
			InKernel: "clients are refused at once while there is no endpoint", KernelValue: "0",
		},
		{
			Name:  "wake",
			Value: WakeUp{Set: func(p *Port, w Wake) { p.Policy.Wake = w }},
			About: "workload that is scaled from 0 to this number of replicas when a client waits for an " +
				"endpoint; needs `wait-for-endpoint`, and a role for portald ([retries.md](retries.md))",
			InKernel: "no workload is scaled for clients",
		},
	}
}

// Wake is a workload in the namespace of the Service, and how many replicas it is to have once a client waits. The zero
// Wake is none.
type Wake struct {
	Kind     string // one of WakeKinds
	Name     string
	Replicas int32
}

// WakeKinds are the kinds of workloads that can be scaled, as an annotation writes them.
func WakeKinds() []string { return []string{"deployment", "statefulset", "replicaset"} }

// maxWake bounds the replicas that a client can bring about.
const maxWake = 100

// String is as the annotation writes it.
func (w Wake) String() string { return fmt.Sprintf("%s/%s=%d", w.Kind, w.Name, w.Replicas) }

// WakeUp is a Value: a workload and a number of replicas.
type WakeUp struct {
	Set func(*Port, Wake)
}

// Form implements Value.
func (v WakeUp) Form() string {
	kinds := Choice{Words: WakeKinds()}
	return fmt.Sprintf("KIND/NAME=REPLICAS with the kind %s, a name of the Service's namespace, and 1 to %d replicas, "+
		"such as deployment/cart=1", kinds.Form(), maxWake)
}

// Read implements Value.
func (v WakeUp) Read(text string, port *Port) bool {
	workload, replicas, isNumber := strings.Cut(text, "=")
	kind, name, isName := strings.Cut(workload, "/")
	n, err := strconv.ParseInt(replicas, 10, 32)
	if !isNumber || !isName || err != nil || n < 1 || n > maxWake {
		return false
	}
	if !slices.Contains(WakeKinds(), kind) || !isObjectName(name) {
		return false
	}
	v.Set(port, Wake{kind, name, int32(n)})
	return true
}

func (WakeUp) setDefault(*Port) {}

// isObjectName tells whether an object may have this name (RFC 1123): it becomes a part of a URL.
func isObjectName(name string) bool {
	const most = 253
	for i, c := range name {
		inside := i > 0 && i < len(name)-1 && (c == '-' || c == '.')
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || inside) {
			return false
		}
	}
	return name != "" && len(name) <= most
}
