package adminsocket

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/proxy/connlog"
)

// Match tells whether a connection is one that the query asks for. It does not look at Sort and Limit.
func (q *ConnectionQuery) Match(c *Connection, now time.Time) bool {
	return anyOf(q.IDs, func(id uint64) bool { return id == c.ID }) &&
		anyOf(q.Protocols, func(p string) bool { return p == c.Protocol }) &&
		anyOf(q.States, func(s string) bool { return s == c.State }) &&
		anyOf(q.EndpointStates, func(s string) bool { return s == c.EndpointState }) &&
		anyOf(q.CarriedBy, func(by string) bool { return by == c.CarriedBy }) &&
		anyOf(q.Namespaces, func(n string) bool { return within(c.Service, n) }) &&
		anyOf(q.Services, func(s string) bool { return connlog.IsService(s, c.Service) }) &&
		anyOf(q.Pods, func(p string) bool { return connlog.IsName(p, c.Pod) || connlog.IsName(p, c.ClientPod) }) &&
		anyOf(q.Endpoints, func(e string) bool { return isEndpoint(c.Endpoint, c.Pod, e) }) &&
		anyOf(q.IPs, func(p netip.Prefix) bool {
			in := func(a netip.AddrPort) bool { return p.Contains(a.Addr().Unmap()) }
			return slices.ContainsFunc(c.addresses(), in)
		}) &&
		anyOf(q.Ports, func(p uint16) bool {
			return slices.ContainsFunc(c.addresses(), func(a netip.AddrPort) bool { return a.Port() == p })
		}) &&
		isLongAgo(c.Start, now, q.Older) && isLongAgo(c.LastMoved, now, q.Idle)
}

// isLongAgo tells whether a time is at least so long ago. Of a zero time, which the kernel may give, it is not known.
func isLongAgo(t, now time.Time, least time.Duration) bool {
	return least == 0 || !t.IsZero() && now.Sub(t) >= least
}

func (c *Connection) addresses() []netip.AddrPort {
	return []netip.AddrPort{c.Client, c.OriginalDst, c.Endpoint}
}

// anyOf tells whether one of the values accepts, or there are none.
func anyOf[T any](values []T, accepts func(T) bool) bool {
	return len(values) == 0 || slices.ContainsFunc(values, accepts)
}

// isEndpoint tells whether an endpoint is meant by its address, with its port or without, or by its pod.
func isEndpoint(at netip.AddrPort, pod, name string) bool {
	if connlog.IsName(name, pod) {
		return true
	}
	if a, err := netip.ParseAddrPort(name); err == nil {
		return a == at
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a == at.Addr()
}

// within tells whether a service port, namespace/name:port, is in a namespace.
func within(service, namespace string) bool {
	its, _, _ := strings.Cut(service, "/")
	return connlog.IsWord(namespace, its)
}
