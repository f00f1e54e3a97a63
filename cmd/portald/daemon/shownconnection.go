package daemon

import (
	"context"
	"iter"
	"time"

	"github.com/portald/portald/proxy/adminapi"
	"github.com/portald/portald/proxy/service"
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

// connections implements adminapi.Daemon.Connections.
func (p *dataPath) connections(ctx context.Context) iter.Seq[*adminapi.Connection] {
	return func(yield func(*adminapi.Connection) bool) {
		names := labels{}
		var c adminapi.Connection
		for live := range p.core.All() {
			if show(&c, live, names); ctx.Err() != nil || !yield(&c) {
				return
			}
		}
	}
}

// addTCP implements adminapi.Daemon.AddTCP.
func (p *dataPath) addTCP(ctx context.Context, to []adminapi.Connection) {
	asked := make([]splice.Live, len(to))
	for i := range to {
		asked[i].ID = to[i].ID
	}
	p.core.AskTCPInfo(ctx, asked)
	for i := range to {
		to[i].ClientTCP, to[i].EndpointTCP = shownTCP(asked[i].ClientTCP), shownTCP(asked[i].EndpointTCP)
	}
}

// show fills in a connection or session of userspace mode as the admin API shows it.
func show(c *adminapi.Connection, l *splice.Live, names labels) {
	*c = adminapi.Connection{
		ID: l.ID, CarriedBy: string(splice.Userspace), Service: names.of(l.Service),
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

func shownTCP(t splice.TCPInfo) *adminapi.TCP {
	if !t.Known {
		return nil
	}
	return &adminapi.TCP{
		RTTms: milliseconds(t.RTT), RTTVarms: milliseconds(t.RTTVar), Retransmits: t.Retransmits, Lost: t.Lost,
		DeliveryRate: t.DeliveryRate,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
