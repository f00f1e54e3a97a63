package answers

import (
	"context"
	"iter"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// labels are names of service ports as they are shown. Many connections have the same.
type labels map[service.PortName]string

func (l labels) of(name service.PortName) string {
	label, known := l[name]
	if !known {
		label = name.Label()
		l[name] = label
	}
	return label
}

// userspaceConnections lists what this process carries.
type userspaceConnections struct{ core *splice.Core }

// all implements adminsocket.Daemon.Connections.
func (p userspaceConnections) all(ctx context.Context) iter.Seq[*adminsocket.Connection] {
	return func(yield func(*adminsocket.Connection) bool) {
		names := labels{}
		var c adminsocket.Connection
		for live := range p.core.All() {
			if show(&c, live, names); ctx.Err() != nil || !yield(&c) {
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
func show(c *adminsocket.Connection, l *record.Live, names labels) {
	*c = adminsocket.Connection{
		ID: l.ID, CarriedBy: string(record.Userspace), Service: names.of(l.Service),
		Protocol: l.Service.Protocol.String(), State: string(l.State),
		Client: l.Client, ClientPod: l.ClientPod, ClientNode: l.ClientNode,
		OriginalDst: l.OriginalDst, Portal: l.Portal.String(), Proxy: l.Proxy,
		Endpoint: l.Endpoint.Addr, Pod: l.Endpoint.Pod, Node: l.Endpoint.Node,
		Start: l.Start.UTC(), LastMoved: l.LastMoved.UTC(), Attempts: l.Attempts,
		BytesFromClient: l.BytesFromClient, BytesToEndpoint: l.BytesToEndpoint,
		BytesFromEndpoint: l.BytesFromEndpoint, BytesToClient: l.BytesToClient,
		ClientTCP: shownTCP(l.ClientTCP), EndpointTCP: shownTCP(l.EndpointTCP),
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
	log      logrus.FieldLogger
}

// all implements adminsocket.Daemon.Kernel.
func (k kernelConnections) all(ctx context.Context) iter.Seq[*adminsocket.Connection] {
	return func(yield func(*adminsocket.Connection) bool) {
		names := labels{}
		var c adminsocket.Connection
		for live, err := range k.recorder.Open(ctx) {
			if err != nil {
				k.log.WithError(err).Warn("A list of connections lacks those that the kernel carries")
				return
			}
			show(&c, live, names)
			if c.CarriedBy = string(record.Kernel); !yield(&c) {
				return
			}
		}
	}
}
