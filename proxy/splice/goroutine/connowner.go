package goroutine

import (
	"net"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// owner is a connection as the core reaches it, from any goroutine: it implements splice.Owner.
type owner struct{ c *conn }

// Interface implements splice.Owner.
func (o owner) Interface() (index int) {
	if o.c.e.host.Interface == nil {
		return 0
	}
	family := inet.FamilyOf(addrOf(o.c.client.RemoteAddr()).Addr())
	control(o.c.client, func(fd uintptr) { index = o.c.e.host.Interface(fd, family) })
	return index
}

// TCPInfo implements splice.Owner.
func (o owner) TCPInfo(tell func(client, endpoint record.TCPInfo)) {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	tell(o.c.e.host.tcpInfo(o.c.client), o.c.e.host.tcpInfo(o.c.endpoint))
}

// Post implements splice.Owner.
func (o owner) Post(next func(now time.Duration) splice.Step) { go o.c.do(next) }

// Detach implements splice.Owner: goroutines wait in the middle of what they do, so a connection stays where it is.
func (o owner) Detach(tell func(*splice.Departure)) { tell(nil) }

// Unkept implements splice.Owner.
func (o owner) Unkept() {}

// Keep implements splice.Owner: what goroutines do is noted nowhere.
func (o owner) Keep(tell func(*splice.Kept)) { tell(nil) }

// SetKeepalive implements splice.Sockets. mu is held.
func (o owner) SetKeepalive(of record.Side, k splice.Keepalive) {
	_ = o.c.socketOf(of).SetKeepAliveConfig(keepaliveConfig(k)) // fails if it is broken: its direction says so
}

// ObservePayload implements splice.Sockets. mu is held.
func (o owner) ObservePayload(to *payload.Keeper) { o.c.payload.Store(to) }

// InFlight implements splice.Sockets. mu is held.
func (o owner) InFlight() (is bool) {
	c := o.c
	if c.copying.Load() > 0 || len(c.steps) > 0 || len(c.early) > 0 { // bytes that are not counted yet
		return true
	}
	for _, socket := range []*net.TCPConn{c.client, c.endpoint} {
		unread, unacknowledged := c.e.host.queues(socket)
		is = is || unread+unacknowledged > 0
	}
	return is
}

// Unresponsive implements splice.Sockets. mu is held.
func (o owner) Unresponsive(of record.Side, silence time.Duration) (is bool) {
	if unresponsive := o.c.e.host.Unresponsive; unresponsive != nil && o.c.endpoint != nil {
		control(o.c.socketOf(of), func(fd uintptr) { is = unresponsive(fd, silence) })
	}
	return is
}
