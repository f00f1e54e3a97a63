package adminsocket

import (
	"encoding/json"
	"iter"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/connlog"
)

// ServiceQuery selects service ports. It has to match each field that is set, by one of its values.
type ServiceQuery struct {
	Namespaces []string
	Services   []string // namespace/name, namespace/name:port, or the same without the namespace; * for any part
}

// EndpointQuery selects endpoints, of the service ports that match.
type EndpointQuery struct {
	ServiceQuery
	Pods      []string       // namespace/name, or the name
	IPs       []netip.Prefix // of the endpoint
	Ports     []uint16
	Endpoints []string // address:port, address or pod
	States    []string
}

// Values are the query of a request.
func (q *ServiceQuery) Values() url.Values {
	return url.Values{"namespace": q.Namespaces, "service": q.Services}
}

// Values are the query of a request.
func (q *EndpointQuery) Values() url.Values {
	v := q.ServiceQuery.Values()
	v["pod"], v["endpoint"], v["state"] = q.Pods, q.Endpoints, q.States
	addPrefixes(v, q.IPs)
	addPorts(v, q.Ports)
	return v
}

// serviceKeys are the keys of ServiceQuery.Values.
func serviceKeys() []string { return []string{"namespace", "service"} }

func parseServices(v url.Values) ServiceQuery {
	return ServiceQuery{Namespaces: v["namespace"], Services: v["service"]}
}

// parseEndpoints is the inverse of Values.
func parseEndpoints(v url.Values) (*EndpointQuery, error) {
	if err := onlyKeys(v, append(serviceKeys(), "pod", "ip", "port", "endpoint", "state")...); err != nil {
		return nil, err
	}
	p := parser{v, nil}
	return &EndpointQuery{
		ServiceQuery: parseServices(v), Pods: v["pod"], Endpoints: v["endpoint"], States: v["state"],
		IPs: p.prefixes(), Ports: p.ports(),
	}, p.err
}

// match tells whether a service port is selected, by its name.
func (q *ServiceQuery) match(name string) bool {
	return anyOf(q.Namespaces, func(n string) bool { return within(name, n) }) &&
		anyOf(q.Services, func(s string) bool { return connlog.IsService(s, name) })
}

// matches tells whether an endpoint of a service port that matches is selected.
func (q *EndpointQuery) matches(e *Endpoint) bool {
	return anyOf(q.Pods, func(p string) bool { return connlog.IsName(p, e.Pod) }) &&
		anyOf(q.IPs, func(p netip.Prefix) bool { return p.Contains(e.Address.Addr().Unmap()) }) &&
		anyOf(q.Ports, func(p uint16) bool { return p == e.Address.Port() }) &&
		anyOf(q.Endpoints, func(text string) bool { return isEndpoint(e.Address, e.Pod, text) }) &&
		anyOf(q.States, func(s string) bool { return s == e.State })
}

func (h *Handler) services(w http.ResponseWriter, r *http.Request) error {
	if err := onlyKeys(r.URL.Query(), serviceKeys()...); err != nil {
		return err
	}
	query := parseServices(r.URL.Query())
	return writeList(w, h.daemon.Services(r.Context(), query.match), appendJSON)
}

func (h *Handler) endpoints(w http.ResponseWriter, r *http.Request) error {
	query, err := parseEndpoints(r.URL.Query())
	if err != nil {
		return err
	}
	return writeList(w, h.chosenEndpoints(r, query), appendJSON)
}

// chosenEndpoints are those that a query selects.
func (h *Handler) chosenEndpoints(r *http.Request, query *EndpointQuery) iter.Seq[*Endpoint] {
	return func(yield func(*Endpoint) bool) {
		for e := range h.daemon.Endpoints(r.Context(), query.match) {
			if query.matches(e) && !yield(e) {
				return
			}
		}
	}
}

func appendJSON[T any](b []byte, one *T) ([]byte, error) {
	text, err := json.Marshal(one)
	return append(b, printable.JSON(text)...), err
}
