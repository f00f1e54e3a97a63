package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Query says what to explain: the parsed arguments of portald explain. One of its parts from Service on is set.
type Query struct {
	What string
	From netip.Addr // the client; invalid: any

	Service  service.Name // and Port of it, empty: all
	Port     string
	Protocol inet.Protocol  // 0: any
	Address  netip.AddrPort // a frontend, or an endpoint; without port: any
	ID       uint64         // a connection

	kind    string           // that was named: service, pod or client
	exact   service.PortName // of a connection
	dialled service.Frontend // by it

	// Set by Find.
	Pod        string                                // namespace/name: the endpoint asked for
	Endpoint   netip.AddrPort                        // the same by address
	Frontends  map[service.PortName]service.Frontend // the one asked for, of each service port that has it
	Connection *Connection
	Ambiguous  []string // names that are meant as well, if it has no namespace
}

// Connection is the connection that was asked for.
type Connection struct {
	Live   *record.Live   // it is open
	Record *record.Record // it has ended
}

// Parse reads a query: [NAMESPACE/]NAME[:PORT], service/… or pod/… before it, an address with a port or without, either
// with /tcp or /udp behind it, client/… before an address or the name of a pod, or the id of a connection. From is an
// address, or empty.
func Parse(what, from string) (q Query, err error) {
	q = Query{What: what}
	if from != "" {
		if q.From, err = netip.ParseAddr(from); err != nil {
			return q, fmt.Errorf("from %q: must be the address of a client", from)
		}
		q.From = q.From.Unmap()
	}
	rest := what
	if client, ok := strings.CutPrefix(rest, kindClient+"/"); ok {
		rest, q.kind = client, kindClient
	}
	for _, p := range []inet.Protocol{inet.TCP, inet.UDP, inet.SCTP} {
		if cut, ok := strings.CutSuffix(rest, "/"+p.String()); ok {
			rest, q.Protocol = cut, p
		}
	}
	if q.ID, err = strconv.ParseUint(rest, 10, 64); err == nil && q.ID > 0 && q.kind == "" {
		return q, nil
	}
	if q.Address, err = netip.ParseAddrPort(rest); err == nil {
		return q, nil
	}
	if addr, err := netip.ParseAddr(strings.Trim(rest, "[]")); err == nil {
		q.Address = netip.AddrPortFrom(addr.Unmap(), 0)
		return q, nil
	}
	return q.named(rest)
}

// The kinds that may be named before others are looked for.
const (
	kindPod    = "pod"
	kindClient = "client"
)

// named reads a name.
func (q Query) named(text string) (Query, error) {
	for _, kind := range []string{"service", "svc", kindPod} {
		if rest, ok := strings.CutPrefix(text, kind+"/"); ok && (q.kind == "" || kind == kindPod) {
			text = rest
			if q.kind == "" {
				q.kind = strings.Replace(kind, "svc", "service", 1)
			}
		}
	}
	namespace, name, named := strings.Cut(text, "/")
	if !named {
		namespace, name = "", text
	}
	name, q.Port, _ = strings.Cut(name, ":")
	likeAddress := strings.Trim(text, "0123456789.:[]") == ""
	if named && namespace == "" || name == "" || strings.Contains(q.Port+name, "/") || likeAddress {
		return q, fmt.Errorf("%q: must be [NAMESPACE/]NAME[:PORT] of a Service, pod/NAMESPACE/NAME, an address with or "+
			"without a port, client/ADDRESS, or the id of a connection", q.What)
	}
	const longest, longestName = 63, 253 // what Kubernetes allows: names that are not known are compared with all
	if len(namespace) > longest || len(q.Port) > longest || len(name) > longestName {
		return q, fmt.Errorf("%.40q...: is longer than names of Kubernetes", q.What)
	}
	q.Service = service.Name{Namespace: namespace, Name: name}
	return q, nil
}

// Of returns the query about the service port, frontend and client of a connection.
func (q Query) Of(c *Connection) Query {
	q.Connection = c
	name, client, dialled := service.PortName{}, netip.AddrPort{}, netip.AddrPort{}
	if c.Live != nil {
		name, client, dialled = c.Live.Service, c.Live.Client, c.Live.OriginalDst
	} else {
		name, client, dialled = c.Record.Service, c.Record.Client, c.Record.OriginalDst
	}
	q.exact, q.From = name, client.Addr().Unmap()
	q.dialled = service.Frontend{Addr: dialled, Protocol: name.Protocol}
	return q
}

// About returns a filter of the records that concern the query: of a service port, and of the client or pod if one was
// asked for. A record concerns each endpoint that was dialled for it.
func (q Query) About(p *service.Port) func(*record.Record) bool {
	return func(r *record.Record) bool {
		switch {
		case r.Service != p.Name:
			return false
		case q.From.IsValid() && r.Client.Addr().Unmap() != q.From:
			return false
		case q.Pod == "" && !q.Endpoint.IsValid():
			return true
		case q.means(r.Endpoint):
			return true
		}
		return slices.ContainsFunc(p.Endpoints, func(e service.Endpoint) bool { return q.means(e) && dialled(r, e.Addr) })
	}
}

// AboutLive is the same of what is open. What has no endpoint yet concerns all.
func (q Query) AboutLive(p *service.Port, l *record.Live) bool {
	return l.Service == p.Name && (!q.From.IsValid() || l.Client.Addr().Unmap() == q.From) &&
		(!l.Endpoint.Addr.IsValid() || q.means(l.Endpoint))
}

// means tells whether an endpoint is the one asked for, or none was.
func (q *Query) means(e service.Endpoint) bool {
	return (q.Pod == "" || e.Pod == q.Pod) && (!q.Endpoint.IsValid() || at(q.Endpoint, e.Addr))
}

func dialled(r *record.Record, endpoint netip.AddrPort) bool {
	return slices.ContainsFunc(r.Attempts, func(a record.Attempt) bool { return a.Endpoint == endpoint })
}
