// Package changes is the time line of a node: what changed just before errors began. It has the changes of Services and
// endpoints, and what the daemon did:
//
//	log := changes.NewLog(changes.DefaultSize)
//	store.Watch(log.Ports)                               // endpoints and Services, once log.Begin was called
//	log.Add(changes.Change{Kind: changes.Drained, …})    // all else
//	last := log.Last(20, nil)
//
// A Service that changes all the time does not push out what others did: see Log.
package changes

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/portal/service"
)

// Kind is what changed, from a closed set of words: the label of metrics.
type Kind string

// The kinds.
const (
	ServiceAdded        Kind = "service_added"
	ServiceRemoved      Kind = "service_removed"
	ServiceChanged      Kind = "service_changed" // of its addresses, policies or annotations: What says which
	ModeChanged         Kind = "mode_changed"
	EndpointAdded       Kind = "endpoint_added"
	EndpointRemoved     Kind = "endpoint_removed"
	EndpointReady       Kind = "endpoint_ready"
	EndpointNotReady    Kind = "endpoint_not_ready"
	EndpointTerminating Kind = "endpoint_terminating"
	EndpointsChanged    Kind = "endpoints_changed" // so many at once that they are counted
	EndpointDrained     Kind = "endpoint_drained"  // by portald drain
	EndpointUndrained   Kind = "endpoint_undrained"
	EndpointEjected     Kind = "endpoint_ejected"  // it failed connections: New says how
	EndpointBack        Kind = "endpoint_back"     // it is no longer ejected
	ServiceRefused      Kind = "service_refused"   // it cannot be served as configured: New says why
	ServiceAccepted     Kind = "service_accepted"  // it is served again
	ConnectionsCut      Kind = "connections_cut"   // by portald cut
	LogLevelChanged     Kind = "log_level_changed" // of the daemon's own log
	RulesChanged        Kind = "rules_changed"     // of the host, by other programs
	Resynced            Kind = "resynced"          // everything was applied again: What says why
	APIServerAway       Kind = "api_server_away"   // or it refuses what portald needs
	APIServerBack       Kind = "api_server_back"
	DaemonStarted       Kind = "daemon_started"
	DaemonTookOver      Kind = "daemon_took_over" // from another portald, or what one that died has left
	DaemonEnding        Kind = "daemon_ending"
	LeftOut             Kind = "left_out" // more changes of a Service, or of a kind, than are kept
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{
		ServiceAdded, ServiceRemoved, ServiceChanged, ModeChanged, EndpointAdded, EndpointRemoved, EndpointReady,
		EndpointNotReady, EndpointTerminating, EndpointsChanged, EndpointDrained, EndpointUndrained, EndpointEjected,
		EndpointBack, ServiceRefused, ServiceAccepted, ConnectionsCut, LogLevelChanged, RulesChanged, Resynced, APIServerAway,
		APIServerBack, DaemonStarted, DaemonTookOver, DaemonEnding, LeftOut,
	}
}

// Effect tells whether such a change comes of connections that failed: it is not why they did.
func (k Kind) Effect() bool { return k == EndpointEjected || k == EndpointBack || k == LeftOut }

// Warning tells whether such a change is a problem of its own: clients are refused, an endpoint or another program has
// disturbed, or changes of the cluster do not come.
func (k Kind) Warning() bool {
	return k == EndpointEjected || k == ServiceRefused || k == RulesChanged || k == APIServerAway
}

// Change is one change.
type Change struct {
	Time     time.Time
	Kind     Kind
	Service  service.PortName // of the service port; zero: of the node
	Endpoint netip.AddrPort
	Pod      string // namespace/name of the endpoint, empty where it has none
	What     string // that changed
	Old, New string
}

// Text is the change in words, without its time.
func (c *Change) Text() string {
	text := ""
	if c.Service.Name != "" {
		text = c.Service.Label() + ": "
	}
	at := c.Endpoint.String()
	if c.Pod != "" {
		at += " (pod " + c.Pod + ")"
	}
	switch c.Kind {
	case ServiceAdded:
		return text + "added, with " + c.New
	case ServiceRemoved:
		return text + "removed, with " + c.Old
	case ModeChanged:
		text += "carried by " + c.Old + ", now by " + c.New
		if c.What != "" {
			text += " (" + c.What + ")"
		}
		return text
	case EndpointAdded:
		return text + "endpoint " + at + " added, " + c.New
	case EndpointRemoved:
		return text + "endpoint " + at + " removed, was " + c.Old
	case EndpointReady, EndpointNotReady, EndpointTerminating:
		return text + "endpoint " + at + " " + c.New + ", was " + c.Old
	case EndpointDrained:
		return text + "endpoint " + at + " drained: it gets no new connections of this node"
	case EndpointUndrained:
		return text + "endpoint " + at + " undrained"
	case EndpointEjected:
		return text + "endpoint " + at + " ejected, since it failed connections (" + c.New + ")"
	case EndpointBack:
		return text + "endpoint " + at + " is no longer ejected"
	case ServiceRefused:
		return text + c.What + " cannot be served as configured (" + c.New + ")"
	case ServiceAccepted:
		return text + c.What + " is served again"
	case ServiceChanged, LogLevelChanged:
		return text + fmt.Sprintf("%s: %s, was %s", c.What, or(c.New), or(c.Old))
	}
	if c.What == "" { // a newer version may have added it
		return text + string(c.Kind)
	}
	return text + c.What
}

// or is a value that may be empty.
func or(value string) string {
	if value == "" {
		return "none"
	}
	return value
}
