package userspace

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// takenRetry is how long a loopback address that another program has is left alone, as health-check ports are.
const takenRetry = 5 * time.Second

// loopbacks serves NodePorts at the loopback address. They need listeners: to redirect that address would open the
// loopback network to neighbours (route_localnet).
type loopbacks struct {
	families [2]bool // in which it does, by inet.Family
	sockets  *sockets
	log      logrus.FieldLogger
	retries  map[*front]time.Time // when addresses that another program had are tried again
	counts   *loopbackCounts
}

// loopbackCounts are by inet.Family.
type loopbackCounts struct {
	open   [2]atomic.Int64  // listeners
	failed [2]atomic.Uint64 // attempts to open one
}

// LoopbackListeners returns how many listeners for NodePorts the loopback address of a family has, of TCP and UDP, and
// how many attempts to open one failed.
func (all *Fronts) LoopbackListeners(family inet.Family) (open int64, failed uint64) {
	return all.loopbacks.open[family].Load(), all.loopbacks.failed[family].Load()
}

// eligible tells whether a service port may have NodePorts there, whatever its endpoints are.
func (l *loopbacks) eligible(p *service.Port, family inet.Family) bool {
	isNodePort := func(x service.Exposure) bool { return x.Kind == service.NodePort }
	return l.families[family] && service.ModeUserspace.Carries(p.Name.Protocol) &&
		slices.ContainsFunc(p.ExposuresOf(family), isNodePort)
}

// wanted returns where a service port is to be served, while it has an endpoint or clients wait for one.
func (l *loopbacks) wanted(
	p *service.Port, usable service.UsableEndpoints, family inet.Family, wait bool,
) map[netip.AddrPort]bool {
	out := map[netip.AddrPort]bool{}
	available := wait || p.Availability(usable, service.NodePort) >= service.AvailableInside
	if !available || !l.eligible(p, family) {
		return out
	}
	for _, x := range p.ExposuresOf(family) {
		if x.Kind == service.NodePort {
			out[netip.AddrPortFrom(family.Loopback(), x.Frontend.Addr.Port())] = true
		}
	}
	return out
}

// serve has a front listen at these addresses and no other loopback address. One that another program has is tried
// again later.
func (l *loopbacks) serve(f *front, wanted map[netip.AddrPort]bool) {
	for at, open := range f.loopback {
		if wanted[at] {
			continue
		}
		if open {
			f.Unlisten(at)
			l.freed(f, at)
		}
		delete(f.loopback, at)
	}
	delete(l.retries, f)
	for at := range wanted {
		if open, reported := f.loopback[at]; open {
			continue
		} else if err := l.sockets.listen(f, at); err != nil {
			f.loopback[at] = false
			l.counts.failed[f.key.family].Add(1)
			l.retries[f] = time.Now().Add(takenRetry)
			if !reported {
				log := l.log.WithError(err).WithField("service", f.Name().Label())
				log.Warn("NodePort is not served at the loopback address")
			}
		} else {
			f.loopback[at] = true
			l.counts.open[f.key.family].Add(1)
		}
	}
}

// forget is called when a front has closed.
func (l *loopbacks) forget(f *front) {
	delete(l.retries, f)
	for at, open := range f.loopback {
		if open {
			l.freed(f, at)
		}
	}
	clear(f.loopback)
}

// freed is called where an address may be another front's from now on, which is tried at the next sweep.
func (l *loopbacks) freed(f *front, at netip.AddrPort) {
	l.counts.open[f.key.family].Add(-1)
	l.sockets.closes(f, at)
	for other := range l.retries {
		l.retries[other] = time.Now()
	}
}

// sweep tries addresses again that another program had, and returns when the next is due; zero: none.
func (l *loopbacks) sweep(now time.Time) (next time.Time) {
	for f, at := range l.retries {
		if !now.Before(at) {
			l.retry(f)
			at = l.retries[f]
		}
		next = earlier(next, at)
	}
	return next
}

func (l *loopbacks) retry(f *front) {
	wanted := map[netip.AddrPort]bool{}
	for at := range f.loopback {
		wanted[at] = true
	}
	if l.serve(f, wanted); l.retries[f].IsZero() {
		l.log.WithField("service", f.Name().Label()).Info("NodePort is served at the loopback address now")
	}
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
