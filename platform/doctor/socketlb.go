package doctor

import (
	"fmt"
	"slices"
	"strings"
)

func socketChecks() []Check {
	return []Check{{
		Name: "socket-load-balancer", Severity: Warning, System: linux,
		What: "a load balancer of a CNI, as Cilium's, that answers ClusterIPs before portald",
		Why: "A BPF program leads a client's socket to an endpoint as it connects: no packet to the Service leaves it. " +
			"portald then carries nothing of these Services for pods of this node, and has no records.",
		Do: "cilium-dbg status --verbose, or calicoctl get felixconfiguration; then switch off one of the two: the CNI's " +
			"load balancer, or portald",
		run: socketsAreLeftAlone,
	}}
}

// ConnectProgram is a BPF program that the kernel runs where a socket connects, or sends a datagram without that.
type ConnectProgram struct {
	Hook string // connect4, sendmsg6, …
	Name string // its first 15 bytes; empty: not known
}

// loadBalancers are the programs that lead sockets to endpoints, by what their names begin with.
var loadBalancers = []struct{ prefix, owner string }{
	{"cil_sock", "Cilium"}, {"sock4_", "Cilium"}, {"sock6_", "Cilium"}, // older ones without cil_
	{"calico_", "Calico"}, {"cali_", "Calico"},
}

// ownerOf is whose load balancer a program is; empty: nobody's that is known.
func (p ConnectProgram) ownerOf() string {
	for _, l := range loadBalancers {
		if strings.HasPrefix(p.Name, l.prefix) {
			return l.owner
		}
	}
	return ""
}

func (p ConnectProgram) String() string {
	if p.Name == "" {
		return p.Hook
	}
	return p.Name + " at " + p.Hook
}

// ciliumInterface is the node's end of Cilium's own device.
const ciliumInterface = "cilium_host"

func socketsAreLeftAlone(f *Facts) result {
	hasCilium := slices.ContainsFunc(f.Links.Value, func(l Link) bool { return l.Name == ciliumInterface })
	if f.Connects.Err != nil && !hasCilium {
		return unknown(f.Connects.Err)
	}
	out := result{ok: "no BPF program translates where sockets connect"}
	by := map[string][]ConnectProgram{} // by owner
	for _, p := range f.Connects.Value {
		owner := p.ownerOf()
		if p.Name == "" && hasCilium {
			owner = "Cilium"
		}
		by[owner] = append(by[owner], p)
	}
	for _, owner := range []string{"Cilium", "Calico"} {
		if of := by[owner]; len(of) > 0 {
			seen := fmt.Sprintf("%s translates in clients' sockets: %s", owner, few(of))
			out.problems = append(out.problems, problem{seen: seen})
		}
	}
	if others := by[""]; len(others) > 0 {
		out.problems = append(out.problems, problem{severity: Note, seen: "BPF programs where sockets connect, of an " +
			"unknown owner: " + few(others), do: "bpftool cgroup tree, and bpftool prog show: whether one is a load balancer"})
	}
	if hasCilium && by["Cilium"] == nil {
		seen := "interface " + ciliumInterface + ": Cilium may translate ClusterIPs at the interfaces of pods"
		if f.Connects.Err != nil {
			seen += ", or in clients' sockets: " + f.Connects.Err.Error()
		}
		out.problems = append(out.problems, problem{severity: Note, seen: seen,
			do: "cilium-dbg service list: what it lists of Services, portald does not see"})
	}
	return out
}
