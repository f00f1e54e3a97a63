package adminsocket

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// ConnectionQuery selects connections. A connection has to match each field that is set: one of the values, where a
// field has several. The zero value selects all.
type ConnectionQuery struct {
	IDs        []uint64
	Namespaces []string       // of the Service
	Services   []string       // namespace/name, namespace/name:port, or the same without the namespace; * for any part
	Pods       []string       // of the endpoint or the client: namespace/name, or the name
	IPs        []netip.Prefix // of the client, the address that it dialled, or the endpoint
	Ports      []uint16       // of one of these
	Endpoints  []string       // address:port, address or pod
	Protocols  []string       // tcp, udp
	States     []string
	// EndpointStates are of the endpoint in its Service now: see Connection.
	EndpointStates []string
	CarriedBy      []string      // userspace, kernel
	Older          time.Duration // it is open for at least so long
	Idle           time.Duration // no byte has moved for so long

	Sort  Order // empty: in no order
	Limit int   // the first so many; 0: all
	TCP   bool  // with ClientTCP and EndpointTCP, which costs two system calls for each that is listed
}

// Values are the query of a request. The same key twice means either value.
func (q *ConnectionQuery) Values() url.Values {
	v := url.Values{}
	for _, id := range q.IDs {
		v.Add("id", strconv.FormatUint(id, 10))
	}
	addPrefixes(v, q.IPs)
	addPorts(v, q.Ports)
	for key, texts := range q.texts() {
		v[key] = append(v[key], *texts...)
	}
	if q.Older > 0 {
		v.Set("older", q.Older.String())
	}
	if q.Idle > 0 {
		v.Set("idle", q.Idle.String())
	}
	if q.Sort != "" {
		v.Set("sort", string(q.Sort))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.TCP {
		v.Set("tcp", "1")
	}
	return v
}

func addPrefixes(v url.Values, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		v.Add("ip", p.String())
	}
}

func addPorts(v url.Values, ports []uint16) {
	for _, p := range ports {
		v.Add("port", strconv.Itoa(int(p)))
	}
}

// texts are the fields that are texts as they stand, by key.
func (q *ConnectionQuery) texts() map[string]*[]string {
	return map[string]*[]string{
		"namespace": &q.Namespaces, "service": &q.Services, "pod": &q.Pods, "endpoint": &q.Endpoints,
		"proto": &q.Protocols, "state": &q.States, "endpoint-state": &q.EndpointStates,
		"carried-by": &q.CarriedBy,
	}
}

// parseConnections is the inverse of Values.
func parseConnections(v url.Values) (*ConnectionQuery, error) {
	q := &ConnectionQuery{}
	err := onlyKeys(v, "id", "namespace", "service", "pod", "ip", "port", "endpoint", "proto", "state",
		"endpoint-state", "carried-by", "older", "idle", "sort", "limit", "tcp")
	if err != nil {
		return nil, err
	}
	for key, texts := range q.texts() {
		*texts = v[key]
	}
	p := parser{v, nil}
	q.IDs = each(&p, "id", "a number", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	q.IPs, q.Ports = p.prefixes(), p.ports()
	q.Older = one(&p, "older", "a time with its unit, as in 10m", time.ParseDuration)
	q.Idle = one(&p, "idle", "a time with its unit, as in 10m", time.ParseDuration)
	q.Sort = one(&p, "sort", "one of bytes, age, idle, rtt", parseOrder)
	q.Limit = one(&p, "limit", "a number from 1 on", parseLimit)
	q.TCP = one(&p, "tcp", "true or false", strconv.ParseBool)
	return q, p.err
}

// parser keeps the first error of what it parses.
type parser struct {
	values url.Values
	err    error
}

func (p *parser) prefixes() []netip.Prefix { return each(p, "ip", "an address or CIDR", parsePrefix) }

func (p *parser) ports() []uint16 { return each(p, "port", "a port", parsePort) }

func each[T any](p *parser, key, must string, parse func(string) (T, error)) (out []T) {
	for _, text := range p.values[key] {
		value, err := parse(text)
		if err != nil && p.err == nil {
			p.err = badRequest("query: %s=%s: must be %s", key, text, must)
		}
		out = append(out, value)
	}
	return out
}

// one is each for a key that stands there once at most: the last value counts.
func one[T any](p *parser, key, must string, parse func(string) (T, error)) (last T) {
	for _, value := range each(p, key, must, parse) {
		last = value
	}
	return last
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err
}

func parseLimit(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if n == 0 && err == nil {
		err = strconv.ErrRange
	}
	return int(n), err
}

func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Prefix(addr.BitLen())
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

func parseOrder(s string) (Order, error) {
	if !slices.Contains(Orders(), Order(s)) {
		return "", strconv.ErrSyntax
	}
	return Order(s), nil
}

// Order names the column that connections are sorted by, the most first.
type Order string

// The orders.
const (
	ByBytes Order = "bytes" // of both directions
	ByAge   Order = "age"
	ByIdle  Order = "idle"
	ByRTT   Order = "rtt" // the larger one of both sides
)

// Orders returns all of them.
func Orders() []Order { return []Order{ByBytes, ByAge, ByIdle, ByRTT} }
