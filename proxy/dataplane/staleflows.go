package dataplane

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// The kernel asks rules about the first packet of a flow alone. So when the rules of a frontend change, flows that
// began under the old rules are stale, and their clients keep them alive as long as they send. This concerns UDP flows,
// and unanswered flows of every protocol that began before any rule led anywhere, as the connection of a pod that
// started before its Service did. They are deleted once the new rules are there, so that the next packet meets these.

// staleFlows names the flows that a scan of the conntrack table is due for. The zero value names none.
type staleFlows struct {
	all        bool                          // the flows to every frontend
	udp        map[service.Frontend]struct{} // UDP flows to these frontends
	unanswered bool                          // unanswered flows, to any frontend
	clusterIPs map[netip.Addr]struct{}       // or to these addresses: with a port that no Service has
}

func (f *staleFlows) empty() bool { return !f.all && !f.unanswered && len(f.udp) == 0 }

// add adds what changes of portals made stale.
func (f *staleFlows) add(changed ...portal.Change) {
	for _, c := range changed {
		if c.Frontend.Protocol == inet.UDP {
			put(&f.udp, c.Frontend)
		}
		if !newlyLed(c) {
			continue
		}
		f.unanswered = true
		if c.Portal.Kind == service.ClusterIP {
			put(&f.clusterIPs, c.Frontend.Addr.Addr())
		}
	}
}

func put[K comparable](to *map[K]struct{}, k K) {
	if *to == nil {
		*to = map[K]struct{}{}
	}
	(*to)[k] = struct{}{}
}

// newlyLed tells whether flows are led somewhere that were not before, or by other means. Those that rules refuse leave
// no entry in the table.
func newlyLed(c portal.Change) bool {
	if c.Portal == nil || led(c.Portal.Target) == "" {
		return false
	}
	return c.Was == nil || led(c.Was.Target) != led(c.Portal.Target)
}

// led names the means by which a target leads flows; empty: it refuses them.
func led(t portal.Target) string {
	switch t.(type) {
	case portal.Redirect:
		return "listener"
	case portal.Spread:
		return "kernel"
	}
	return ""
}

// Scans take a tenth of the time, as a node may have changes all the time: a scan of a large node's table takes a tenth
// of a second. Clients send again after a second or two, so that the next scan waits no longer. A scan that is due
// earlier is not worth a wait.
const (
	scanShare = 10
	soonScan  = 10 * time.Millisecond
	lateScan  = time.Second

	slowedDown = 8 // failures in a row, after which no wait is longer
)

// flowCleaner deletes stale flows from the kernel's conntrack table.
type flowCleaner struct {
	table *portal.Table
	ports map[service.PortName]*service.Port // whose endpoints may reply
	// deleteFlows is Options.DeleteFlows; nil: there is no table.
	deleteFlows func(ctx context.Context, q inet.FlowQuery, stale func(inet.Flow) bool) (int, error)
	own         func(netip.Addr) bool
	period      time.Duration // between scans for all frontends; 0 = none
	warn        func(error)

	pending  staleFlows
	nextScan time.Time // at the earliest
	failures int       // of scans since the last one that did not fail
	allDue   time.Time // when sweep scans for all frontends; zero before the first one
}

// add notes what changes of portals made stale.
func (c *flowCleaner) add(changed []portal.Change) { c.pending.add(changed...) }

// addAll notes that the rules of any portal may have changed.
func (c *flowCleaner) addAll() { c.pending.all = true }

// deletePending deletes the flows that are due, unless it is too early for another scan: then a sweep does. After a
// failure, of which the first is reported, they stay due: rules are no worse for it.
func (c *flowCleaner) deletePending(ctx context.Context) {
	began := time.Now()
	if c.pending.empty() || began.Before(c.nextScan) {
		return
	}
	err := c.scan(ctx, c.pending)
	now := time.Now()
	wait := min((scanShare-1)*now.Sub(began), lateScan)
	if err == nil {
		c.pending, c.failures = staleFlows{}, 0
	} else {
		if c.failures == 0 && ctx.Err() == nil {
			c.warn(fmt.Errorf("look for stale flows: %w", err))
		}
		wait = max(wait, min(2*soonScan<<c.failures, lateScan))
		c.failures = min(c.failures+1, slowedDown)
	}
	if wait > soonScan {
		c.nextScan = now.Add(wait)
	}
}

// deleteNow deletes the flows for which it was too early: no sweep will, and they lead to listeners that are about to
// close.
func (c *flowCleaner) deleteNow(ctx context.Context) {
	c.nextScan = time.Time{}
	c.deletePending(ctx)
}

// sweep scans for stale flows if that is due, and returns when it is next.
func (c *flowCleaner) sweep(ctx context.Context) (next time.Time) {
	now := time.Now()
	switch {
	case c.period <= 0:
	case c.allDue.IsZero(): // a resync has just scanned
		c.allDue = now.Add(c.period)
	case !now.Before(c.allDue):
		c.allDue = now.Add(c.period)
		c.addAll()
	}
	if c.deletePending(ctx); c.pending.empty() {
		return c.allDue
	}
	return earlier(c.allDue, c.nextScan)
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// scan deletes flows whose replies come from an address that no portal leads to.
func (c *flowCleaner) scan(ctx context.Context, due staleFlows) error {
	if due.all {
		for p := range c.table.All() {
			due.unanswered = due.unanswered || led(p.Target) != ""
			if p.Frontend.Protocol == inet.UDP {
				put(&due.udp, p.Frontend)
			}
		}
	}
	clusterIPs := sync.OnceValue(func() map[netip.Addr]struct{} { return c.clusterIPs(due) })
	var udp []portal.Change
	for f := range due.udp {
		udp = append(udp, portal.Change{Frontend: f, Portal: c.table.PortalAt(f)})
	}
	if err := c.deleteUDP(ctx, udp, noReplier); err != nil || !due.unanswered || c.deleteFlows == nil {
		return err
	}
	_, err := c.deleteFlows(ctx, inet.FlowQuery{Unreplied: true}, func(f inet.Flow) bool {
		to := service.Frontend{Addr: f.To, Protocol: f.Protocol}
		current := c.leads(to)
		if current == nil {
			_, ours := clusterIPs()[f.To.Addr()]
			return ours
		}
		return noReplier(f, repliers{c.replierOf(portal.Change{Frontend: to, Portal: current})})
	})
	return err
}

// clusterIPs are those to which a scan looks for flows with a port that no Service has.
func (c *flowCleaner) clusterIPs(due staleFlows) map[netip.Addr]struct{} {
	if !due.all {
		return due.clusterIPs
	}
	var all map[netip.Addr]struct{}
	for p := range c.table.All() {
		if p.Kind == service.ClusterIP && led(p.Target) != "" {
			put(&all, p.Frontend.Addr.Addr())
		}
	}
	return all
}

// leads returns the portal that packets to an address meet.
func (c *flowCleaner) leads(to service.Frontend) *portal.Portal {
	if current := c.table.PortalAt(to); current != nil || !c.ownAddress(to.Addr.Addr()) {
		return current
	}
	to.Addr = netip.AddrPortFrom(inet.FamilyOf(to.Addr.Addr()).Unspecified(), to.Addr.Port())
	return c.table.PortalAt(to)
}

// ownAddress tells whether NodePorts may be served at an address. At loopback the daemon itself listens.
func (c *flowCleaner) ownAddress(a netip.Addr) bool { return !a.IsLoopback() && c.own(a) }

// noReplier tells whether a flow's replies come from elsewhere.
func noReplier(f inet.Flow, may repliers) bool { return !may.include(f.Replier) }

// deleteAbandoned deletes the UDP flows to listeners of these portals that were removed, and flows that nobody has
// translated since. Others go on: another service proxy may have come, and have the same endpoints.
func (c *flowCleaner) deleteAbandoned(ctx context.Context, removed []portal.Change) error {
	return c.deleteUDP(ctx, removed, func(f inet.Flow, were repliers) bool {
		return !f.Translated() || were.include(f.Replier)
	})
}

// deleteUDP deletes the UDP flows of these frontends for which bad is true, by who may reply. It leaves out flows that
// servers of the host have answered at its own addresses, which rules never led anywhere.
func (c *flowCleaner) deleteUDP(
	ctx context.Context, changed []portal.Change, bad func(f inet.Flow, may repliers) bool,
) error {
	fixed, nodePorts := map[netip.AddrPort]repliers{}, map[uint16]repliers{}
	var to []netip.AddrPort
	for _, x := range changed {
		if x.Frontend.Protocol != inet.UDP {
			continue
		}
		to = append(to, x.Frontend.Addr)
		if x.Frontend.Addr.Addr().IsUnspecified() {
			port := x.Frontend.Addr.Port()
			nodePorts[port] = append(nodePorts[port], c.replierOf(x)) // of both families
		} else {
			fixed[x.Frontend.Addr] = repliers{c.replierOf(x)}
		}
	}
	if c.deleteFlows == nil || len(to) == 0 {
		return nil
	}
	_, err := c.deleteFlows(ctx, inet.FlowQuery{To: to}, func(f inet.Flow) bool {
		own := c.ownAddress(f.To.Addr())
		may, ok := fixed[f.To]
		if !ok && own {
			may, ok = nodePorts[f.To.Port()]
		}
		server := own && f.Replied && !f.Translated()
		return ok && !server && bad(f, may)
	})
	return err
}

// spreadUDP returns the UDP portals that spread over endpoints, of service ports that changed: an endpoint that goes
// after it was left out for a while changes no portal, and yet its flows are stale now.
func (c *flowCleaner) spreadUDP(changes []service.Change) (out []portal.Change) {
	for _, change := range changes {
		if change.Port == nil || change.Name.Protocol != inet.UDP {
			continue
		}
		for _, x := range change.Port.Exposures {
			current := c.table.PortalAt(x.Frontend)
			if current == nil || current.Owner != change.Name {
				continue
			}
			if _, ok := current.Target.(portal.Spread); ok {
				out = append(out, portal.Change{Frontend: x.Frontend, Portal: current, Was: current})
			}
		}
	}
	return out
}

// replier names who may reply for a frontend: the daemon's proxy port, or any endpoint that serves; the zero value
// names none. Endpoints that a traffic policy or a topology hint leaves out count too: that is no reason to break a
// flow.
type replier struct {
	family    inet.Family
	port      uint16 // 0 = none
	endpoints []service.Endpoint
}

type repliers []replier

func (c *flowCleaner) replierOf(x portal.Change) replier {
	r := replier{family: inet.FamilyOf(x.Frontend.Addr.Addr())}
	if x.Portal == nil {
		return r
	}
	switch t := x.Portal.Target.(type) {
	case portal.Redirect:
		r.port = t.Port
	case portal.Spread:
		if p := c.ports[x.Portal.Owner]; p != nil {
			r.endpoints = p.EndpointsOf(r.family)
		}
	}
	return r
}

func (all repliers) include(addr netip.AddrPort) bool {
	return slices.ContainsFunc(all, func(r replier) bool {
		if r.port != 0 && r.port == addr.Port() && r.family == inet.FamilyOf(addr.Addr()) {
			return true
		}
		byAddr := func(e service.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) }
		i, ok := slices.BinarySearchFunc(r.endpoints, addr, byAddr)
		return ok && r.endpoints[i].Serving
	})
}
