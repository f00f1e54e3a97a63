package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// exposures are the frontends that are explained, ClusterIPs first.
func (e *explained) exposures() []service.Exposure {
	if len(e.query.Frontends) == 0 {
		return slices.SortedStableFunc(slices.Values(e.Port.Exposures), func(a, b service.Exposure) int {
			return cmp.Compare(a.Kind, b.Kind)
		})
	}
	for _, x := range e.Port.Exposures {
		if x.Frontend == e.query.Frontends[e.Port.Name] {
			return []service.Exposure{x}
		}
	}
	return nil
}

// problems are why the Service, or a part of it, is not served as it is written.
func (e *explained) problems() {
	quarantined := e.Applied != nil && e.Applied.Quarantine != ""
	if len(e.Problems)+len(e.Ignored) == 0 && !quarantined && e.node.Busy == nil && e.Applied != nil {
		return
	}
	e.section("Problems")
	switch {
	case e.node.Busy != nil:
		e.add(Wrong, nil, "the reconcile loop does not answer: %v", e.node.Busy)
		e.find(Wrong, "portald doctor",
			"Changes of Services are not applied on this node: the reconcile loop waits for the host.")
	case e.Applied == nil:
		e.add(Doubt, nil, "nothing of it was applied yet")
		e.find(Doubt, "portald explain "+e.Port.Name.Label(), "%s is new, and was not applied yet.", e.label())
	}
	if quarantined {
		again := "when it changes"
		if !e.Applied.Retry.IsZero() {
			again = "at " + e.Applied.Retry.UTC().Format("15:04:05") + " UTC"
		}
		e.add(Wrong, nil, "set aside (%s): %v; tried again %s", e.Applied.Quarantine, e.Applied.Err, again)
		e.find(Wrong, "kubectl describe service -n "+e.Port.Name.Namespace+" "+e.Port.Name.Name,
			"%s cannot be served as it is written: %v.", e.label(), e.Applied.Err)
	}
	for _, p := range e.Problems {
		e.add(Doubt, nil, "%s", p)
		e.find(Doubt, "kubectl describe service -n "+e.Port.Name.Namespace+" "+e.Port.Name.Name,
			"A part of %s is not served: %s.", e.label(), p)
	}
	for _, p := range e.Ignored {
		e.add(Doubt, nil, "%s", p)
	}
	if len(e.Ignored) > 0 {
		e.find(Doubt, "kubectl describe service -n "+e.Port.Name.Namespace+" "+e.Port.Name.Name,
			"Settings of %s do not have the effect that they ask for: %s.", e.Port.Name.Service(),
			strings.TrimSuffix(strings.Join(e.Ignored, "; "), "?"))
	}
}

// frontends reports the addresses that clients dial, which Service owns them, and where they lead.
func (e *explained) frontends() {
	e.section("Frontends")
	all := e.exposures()
	if len(all) == 0 {
		e.add(Wrong, nil, "it has no address")
		e.find(Wrong, "kubectl get service -n "+e.Port.Name.Namespace+" "+e.Port.Name.Name,
			"%s has no address that clients could dial.", e.label())
	}
	for _, x := range all {
		e.frontend(x)
	}
	if status, text := e.refusedLine(); text != "" {
		e.add(status, nil, "%s", text)
	}
	e.bufferFull()
	if len(e.younger) > 0 {
		e.add(Fact, nil, "also claimed by %s, younger, which do not get it", strings.Join(e.younger, ", "))
	}
}

func (e *explained) frontend(x service.Exposure) {
	name := x.Kind.String() + " " + frontendText(x)
	if e.Applied == nil {
		e.add(Fact, nil, "%s", name)
		return
	}
	holder, owned := e.Applied.Holders[x.Frontend]
	claim := e.Applied.portal(x.Frontend)
	switch {
	case owned && holder != e.Port.Name:
		e.add(Wrong, nil, "%s: held by %s, which is older", name, holder.Label())
		e.find(Wrong, "portald explain "+holder.Label(), "%s does not get %s: the older Service %s holds it.", e.label(),
			frontendText(x), holder.Label())
	case claim == nil:
		e.add(Wrong, nil, "%s: not served", name)
		e.find(Wrong, "kubectl describe service -n "+e.Port.Name.Namespace+" "+e.Port.Name.Name,
			"%s is not served at %s.", e.label(), frontendText(x))
	default:
		e.target(x, name, claim.Target)
		if x.Kind == service.NodePort {
			e.nodePort(x)
		}
	}
}

// nodePort says where a NodePort is not served.
func (e *explained) nodePort(x service.Exposure) {
	family := inet.FamilyOf(x.Frontend.Addr.Addr())
	mine := func(a netip.Addr) bool { return inet.FamilyOf(a) == family }
	dialled := e.query.Address.Addr()
	switch {
	case dialled.IsLoopback():
	case !slices.ContainsFunc(e.node.NodePorts, mine):
		e.add(Doubt, nil, "no address of %s of this host serves NodePorts: see nodePortAddresses", family)
		e.find(Doubt, "portald config", "NodePort %s of %s is served at no address of this host.", frontendText(x), e.label())
	case len(e.query.Frontends) > 0 && dialled.IsValid() && !slices.Contains(e.node.NodePorts, dialled):
		e.add(Wrong, nil, "%s does not serve NodePorts: see nodePortAddresses", dialled)
		e.find(Wrong, "portald config", "%s is an address of this host that does not serve NodePorts.", dialled)
	}
}

// target says where a frontend leads.
func (e *explained) target(x service.Exposure, name string, to portal.Target) {
	switch to := to.(type) {
	case portal.Redirect:
		where := "its own listener"
		if to.Port != 0 {
			where = fmt.Sprintf("portald's listener at port %d", to.Port)
			if e.Sharing[inet.FamilyOf(x.Frontend.Addr.Addr())] {
				where += ", which it shares with other service ports"
			}
		}
		if !to.Inside {
			e.add(Good, nil, "%s leads to %s", name, where)
			return
		}
		e.insideOnly(x, name, "leads to "+where)
	case portal.Spread:
		if x.Kind != service.ClusterIP && to.Scope == service.NodeScope && len(to.Pool.Node) == 0 {
			e.insideOnly(x, name, "is spread by the kernel")
			return
		}
		e.add(Good, nil, "%s is spread over %d endpoints by the kernel", name, len(to.Pool.Of(to.Scope)))
	case portal.Reject:
		e.add(Wrong, nil, "%s refuses its clients", name)
	case portal.Drop:
		e.add(Wrong, nil, "%s drops packets: a Local traffic policy, and no endpoint on this node", name)
	}
}

// insideOnly is of an external frontend with a Local policy and no endpoint on this node.
func (e *explained) insideOnly(x service.Exposure, name, leads string) {
	status := Doubt
	if inside, known := e.inside(); known {
		if status = Wrong; inside {
			status = Good
		}
	}
	e.add(status, nil, "%s %s for clients inside the cluster alone, and drops others: externalTrafficPolicy Local, and "+
		"no endpoint on this node", name, leads)
	if status != Good {
		e.find(status, "portald endpoints "+e.flag(),
			"Clients outside the cluster cannot use %s of %s through this node: externalTrafficPolicy Local, and no "+
				"endpoint here.", frontendText(x), e.label())
	}
}

// inside tells whether the client that was asked for is inside the cluster.
func (e *explained) inside() (inside, known bool) {
	if !e.query.From.IsValid() || e.node.Inside == nil {
		return false, false
	}
	return e.node.Inside(e.query.From)
}

// here tells whether the client that was asked for is on this host.
func (e *explained) here() bool {
	return e.query.From.IsValid() && e.node.Local != nil && e.node.Local(e.query.From)
}

func frontendText(x service.Exposure) string {
	if x.Kind == service.NodePort {
		return fmt.Sprintf("%s/%s (%s)", portText(x.Frontend), x.Frontend.Protocol, inet.FamilyOf(x.Frontend.Addr.Addr()))
	}
	return x.Frontend.String()
}

// mode is who carries connections, and why.
func (e *explained) mode() {
	e.section("Mode")
	mode, why := modeOf(e.Port, e.node)
	how := "portald accepts connections and dials endpoints"
	switch {
	case mode == service.ModeKernel:
		how = "the kernel translates packets, and portald sees no connection"
	case !mode.Carries(e.Port.Name.Protocol):
		how = "portald does not carry " + e.Port.Name.Protocol.String() + ", and refuses clients"
	}
	e.add(Fact, nil, "%s, by %s: %s", mode, why, how)
	if e.Applied != nil && e.Applied.Mode != mode {
		e.add(Doubt, nil, "it is still carried by %s: the change was not applied yet", e.Applied.Mode)
	}
	if e.Port.Policy.KeepPayload == service.KeepBadlyEnded && mode == service.ModeUserspace &&
		e.Port.Name.Protocol == inet.TCP {
		e.add(Fact, nil, "payload of connections that end badly is kept in memory, by the annotation "+
			"portald.io/keep-payload of the Service: portald tail --payload shows it")
	}
	e.algorithm()
	e.add(Fact, nil, "rules are written by %s", e.node.Writer)
}
