package answers

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// endpointStates returns the states of the endpoints that a service port has now, by address.
type endpointStates func(service.PortName) map[netip.AddrPort]string

// shownPorts are service ports as they are shown in one list. Many connections have the same.
type shownPorts struct {
	states endpointStates
	known  map[service.PortName]*shownPort
}

type shownPort struct {
	label  string
	states map[netip.AddrPort]string
}

func (s endpointStates) ports() shownPorts { return shownPorts{s, map[service.PortName]*shownPort{}} }

func (s shownPorts) of(name service.PortName) *shownPort {
	p := s.known[name]
	if p == nil {
		p = &shownPort{name.Label(), s.states(name)}
		s.known[name] = p
	}
	return p
}

// stateOf is the state of an endpoint that a connection has; empty: it has none yet.
func (p *shownPort) stateOf(at netip.AddrPort) string {
	state, listed := p.states[at]
	switch {
	case !at.IsValid():
		return ""
	case !listed:
		return adminsocket.Removed
	}
	return state
}

// userspaceConnections lists what this process carries.
type userspaceConnections struct {
	core   *splice.Core
	states endpointStates
}

// all implements adminsocket.Daemon.Connections.
func (p userspaceConnections) all(ctx context.Context) iter.Seq[*adminsocket.Connection] {
	return func(yield func(*adminsocket.Connection) bool) {
		ports := p.states.ports()
		var c adminsocket.Connection
		for live := range p.core.All() {
			if show(&c, live, ports); ctx.Err() != nil || !yield(&c) {
				return
			}
		}
	}
}

// addTCP implements adminsocket.Daemon.AddTCP.
func (p userspaceConnections) addTCP(ctx context.Context, to []adminsocket.Connection) {
	live := make([]record.Live, len(to))
	for i := range to {
		live[i].ID = to[i].ID
	}
	p.core.ReadTCPInfo(ctx, live)
	for i := range to {
		to[i].ClientTCP, to[i].EndpointTCP = shownTCP(live[i].ClientTCP), shownTCP(live[i].EndpointTCP)
	}
}

// show fills in a connection or session of userspace mode as the admin API shows it.
func show(c *adminsocket.Connection, l *record.Live, ports shownPorts) {
	port := ports.of(l.Service)
	*c = adminsocket.Connection{
		ID: l.ID, CarriedBy: string(record.Userspace), Service: port.label,
		Protocol: l.Service.Protocol.String(), State: string(l.State),
		Client: l.Client, ClientPod: l.ClientPod, ClientNode: l.ClientNode,
		OriginalDst: l.OriginalDst, Portal: l.Portal.String(), Proxy: l.Proxy,
		Endpoint: l.Endpoint.Addr, Pod: l.Endpoint.Pod, Node: l.Endpoint.Node,
		EndpointState: port.stateOf(l.Endpoint.Addr),
		Start:         l.Start.UTC(), LastMoved: l.LastMoved.UTC(), Attempts: l.Attempts,
		BytesFromClient: l.BytesFromClient, BytesToEndpoint: l.BytesToEndpoint,
		BytesFromEndpoint: l.BytesFromEndpoint, BytesToClient: l.BytesToClient,
		ClientTCP: shownTCP(l.ClientTCP), EndpointTCP: shownTCP(l.EndpointTCP),
	}
	if l.FirstByte >= 0 {
		ms := milliseconds(l.FirstByte)
		c.FirstByteMS = &ms
	}
}

func shownTCP(t record.TCPInfo) *adminsocket.TCP {
	if !t.Known {
		return nil
	}
	return &adminsocket.TCP{
		RTTms: milliseconds(t.RTT), RTTVarms: milliseconds(t.RTTVar), Retransmits: t.Retransmits, Lost: t.Lost,
		DeliveryRate: t.DeliveryRate,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// kernelConnections lists what the kernel carries.
type kernelConnections struct {
	recorder *flows.Recorder
	states   endpointStates
	log      logrus.FieldLogger
}

// all implements adminsocket.Daemon.Kernel.
func (k kernelConnections) all(ctx context.Context) iter.Seq[*adminsocket.Connection] {
	return func(yield func(*adminsocket.Connection) bool) {
		ports := k.states.ports()
		var c adminsocket.Connection
		for live, err := range k.recorder.Open(ctx) {
			if err != nil && ctx.Err() == nil { // else the client has left, as pages do that are closed
				k.log.WithError(err).Warn("A list of connections lacks those that the kernel carries")
			}
			if err != nil {
				return
			}
			show(&c, live, ports)
			if c.CarriedBy = string(record.Kernel); !yield(&c) {
				return
			}
		}
	}
}
