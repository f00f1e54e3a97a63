package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// ended returns the connections that have ended with one of the outcomes, of the records that the daemon keeps, in the
// order and number of the query.
func (s *selection) ended(
	ctx context.Context, client *adminsocket.Client, query adminsocket.ConnectionQuery,
) ([]adminsocket.Connection, error) {
	filter, err := s.recordFilter()
	if err != nil {
		return nil, err
	}
	rows := []adminsocket.Connection{}
	records := adminsocket.RecordQuery{Filter: *filter, Last: everything}
	err = client.Records(ctx, records, func(l *connlog.Line) error {
		rows = append(rows, endedConnection(l))
		return nil
	}, func(adminsocket.Gap) error { return nil }) // there are none in what is past
	slices.SortFunc(rows, func(a, b adminsocket.Connection) int {
		return cmp.Or(cmp.Compare(query.Sort.Rank(&b), query.Sort.Rank(&a)), cmp.Compare(a.ID, b.ID))
	})
	if query.Limit > 0 {
		rows = rows[:min(query.Limit, len(rows))]
	}
	return rows, err
}

// recordFilter is the selection of records.
func (s *selection) recordFilter() (*connlog.Filter, error) {
	if s.older > 0 || s.idle > 0 || len(s.states) > 0 {
		return nil, usage("--outcome: is of connections that have ended; omit --older, --idle and --state, " +
			"or see portald tail --since")
	}
	f := &connlog.Filter{}
	for key, values := range map[string][]string{
		"service": s.services, "namespace": s.namespaces(), "pod": s.pods, "endpoint": s.endpoints, "ip": s.ips.text,
		"port": s.ports.text, "proto": s.protocols, "carried-by": s.carriers, "outcome": s.outcomes,
	} {
		for _, value := range values {
			if err := f.Add(false, key, value, time.Now()); err != nil {
				return nil, usage("--%w", err)
			}
		}
	}
	return f, nil
}

// endedConnection is a record as conns shows it: the outcome is its state.
func endedConnection(l *connlog.Line) adminsocket.Connection {
	return adminsocket.Connection{
		ID: l.ID, CarriedBy: string(l.CarriedBy), Service: l.Service, Protocol: l.Protocol, State: string(l.Outcome),
		Client: l.Client, ClientPod: l.ClientPod, ClientNode: l.ClientNode, OriginalDst: l.OriginalDst,
		Portal: l.Portal, Proxy: l.Proxy, Endpoint: l.Endpoint, Pod: l.Pod, Node: l.Node,
		Start: l.Time.Time, LastMoved: l.End(), Attempts: l.Dials(),
		BytesFromClient: l.BytesFromClient, BytesToEndpoint: orAll(l.BytesToEndpoint, l.BytesFromClient),
		BytesFromEndpoint: l.BytesFromEndpoint, BytesToClient: orAll(l.BytesToClient, l.BytesFromEndpoint),
		ClientTCP: endedTCP(l.ClientTCP), EndpointTCP: endedTCP(l.EndpointTCP),
	}
}

func orAll(delivered *int64, read int64) int64 {
	if delivered == nil {
		return read
	}
	return *delivered
}

func endedTCP(t *connlog.TCP) *adminsocket.TCP {
	if t == nil {
		return nil
	}
	return &adminsocket.TCP{
		RTTms: t.RTTMS, RTTVarms: t.RTTVarMS, Retransmits: t.Retransmits, Lost: t.Lost, DeliveryRate: t.DeliveryRate,
	}
}
