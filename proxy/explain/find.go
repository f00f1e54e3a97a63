package explain

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Find returns the service ports that a query is about, in order, and the query with what they say of it. Local tells
// the addresses of this host: NodePorts are served there.
func Find(q Query, ports []*service.Port, local func(netip.Addr) bool) (Query, []*service.Port) {
	if q.kind == kindClient {
		return q, nil
	}
	if q.Service.Name != "" && q.Service.Namespace == "" {
		q.inAnyNamespace(ports)
	}
	found := q.match(ports, local)
	if len(found) == 0 && q.Service.Name != "" && q.kind != "service" {
		q.Pod = q.Service.String()
		found = q.match(ports, local)
	}
	if len(found) == 0 && q.Address.IsValid() {
		q.Endpoint = q.Address
		found = q.match(ports, local)
	}
	slices.SortFunc(found, func(a, b *service.Port) int { return a.Name.Compare(b.Name) })
	if len(found) == 0 {
		q.Pod, q.Endpoint = "", netip.AddrPort{}
	}
	return q, found
}

// FindRemoved returns the query about an endpoint that was, for one that Find knows nothing of. Each has the endpoints
// of connections, open ones or others.
func FindRemoved(q Query, each iter.Seq2[service.PortName, service.Endpoint]) (Query, []service.PortName) {
	if q.kind == kindClient || q.kind == "service" {
		return q, nil
	}
	var found []service.PortName
	asked := q
	for name, e := range each {
		is := q.Address.IsValid() && at(q.Address, e.Addr) || q.Service.Name != "" && e.Pod != "" && q.names(e.Pod)
		if !is || q.Protocol != 0 && q.Protocol != name.Protocol {
			continue
		}
		if q.Address.IsValid() {
			asked.Endpoint = q.Address
		} else {
			asked.Pod = e.Pod
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, service.PortName.Compare)
	return asked, found
}

// names tells whether a pod has the name that was asked for.
func (q *Query) names(pod string) bool {
	namespace, name, _ := strings.Cut(pod, "/")
	return name == q.Service.Name && (q.Service.Namespace == "" || namespace == q.Service.Namespace)
}

// inAnyNamespace finds the namespace of a name without one: of the Services that have it, or else of the pods.
func (q *Query) inAnyNamespace(ports []*service.Port) {
	var services, pods []string
	for _, p := range ports {
		if p.Name.Name == q.Service.Name {
			services = append(services, p.Name.Service().String())
		}
		for _, e := range p.Endpoints {
			if _, name, _ := strings.Cut(e.Pod, "/"); name == q.Service.Name {
				pods = append(pods, e.Pod)
			}
		}
	}
	all, prefix := services, ""
	if q.kind == kindPod || len(services) == 0 && q.kind == "" {
		all, prefix = pods, "pod/"
	}
	slices.Sort(all)
	switch all = slices.Compact(all); len(all) {
	case 0:
	case 1:
		q.Service.Namespace, _, _ = strings.Cut(all[0], "/")
	default:
		for _, name := range all {
			q.Ambiguous = append(q.Ambiguous, prefix+name)
		}
	}
}

func (q *Query) match(ports []*service.Port, local func(netip.Addr) bool) (found []*service.Port) {
	for _, p := range ports {
		if q.Protocol != 0 && p.Name.Protocol != q.Protocol {
			continue
		}
		switch {
		case q.exact != service.PortName{}:
			if p.Name == q.exact {
				q.dialledAt(p)
				found = append(found, p)
			}
		case q.Endpoint.IsValid():
			if slices.ContainsFunc(p.Endpoints, func(e service.Endpoint) bool { return at(q.Endpoint, e.Addr) }) {
				found = append(found, p)
			}
		case q.Address.IsValid():
			if q.exposed(p, local) {
				found = append(found, p)
			}
		case q.Pod != "":
			if slices.ContainsFunc(p.Endpoints, func(e service.Endpoint) bool { return e.Pod == q.Pod }) {
				found = append(found, p)
			}
		case q.kind != kindPod && p.Name.Service() == q.Service && (q.Port == "" || q.Port == p.Name.Port || q.number(p)):
			found = append(found, p)
		}
	}
	return found
}

// dialledAt notes the frontend that a connection dialled.
func (q *Query) dialledAt(p *service.Port) {
	for _, x := range p.Exposures {
		if x.Frontend == q.dialled {
			q.setFrontend(p, x.Frontend)
		}
	}
}

func (q *Query) setFrontend(p *service.Port, f service.Frontend) {
	if q.Frontends == nil {
		q.Frontends = map[service.PortName]service.Frontend{}
	}
	q.Frontends[p.Name] = f
}

// number tells whether the port was asked for by a port number of the Service.
func (q *Query) number(p *service.Port) bool {
	return slices.ContainsFunc(p.Exposures, func(x service.Exposure) bool { return portText(x.Frontend) == q.Port })
}

// exposed tells whether a service port has the address that was asked for. If it has one frontend there, that is the
// one asked for.
func (q *Query) exposed(p *service.Port, local func(netip.Addr) bool) bool {
	for _, x := range p.Exposures {
		f := x.Frontend
		node := x.Kind == service.NodePort && local != nil && local(q.Address.Addr()) &&
			inet.FamilyOf(f.Addr.Addr()) == inet.FamilyOf(q.Address.Addr()) &&
			f.Addr.Port() == q.Address.Port()
		if !node && !at(q.Address, f.Addr) {
			continue
		}
		if q.Address.Port() != 0 {
			q.setFrontend(p, f)
		}
		return true
	}
	return false
}

// at tells whether an address is the one asked for; port 0 stands for any.
func at(want, is netip.AddrPort) bool {
	return want.Addr() == is.Addr() && (want.Port() == 0 || want.Port() == is.Port())
}
