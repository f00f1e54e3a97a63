package inspect

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// ended returns the connections that have ended with one of the outcomes, of the records that the daemon keeps, in the
// order and number of the query.
func (s *selection) ended(
	ctx context.Context, client *adminsocket.Client, query adminsocket.ConnectionQuery, errOut io.Writer,
) ([]adminsocket.Connection, error) {
	rows := []adminsocket.Connection{}
	err := s.eachEnded(ctx, client, errOut, func(l *connlog.Line) { rows = append(rows, endedConnection(l)) })
	slices.SortFunc(rows, func(a, b adminsocket.Connection) int {
		return cmp.Or(cmp.Compare(query.Sort.Rank(&b), query.Sort.Rank(&a)), cmp.Compare(a.ID, b.ID))
	})
	if query.Limit > 0 {
		rows = rows[:min(query.Limit, len(rows))]
	}
	return rows, err
}

// eachEnded calls each with the records of the connections that have ended with one of the outcomes. errOut is told how
// far back they reach, if times are chosen.
func (s *selection) eachEnded(
	ctx context.Context, client *adminsocket.Client, errOut io.Writer, each func(*connlog.Line),
) error {
	filter, err := s.recordFilter()
	if err != nil {
		return err
	}
	since, until := filter.Between()
	query := adminsocket.RecordQuery{Filter: *filter, Last: everything, History: !since.IsZero() || !until.IsZero()}
	return client.ReadRecords(ctx, query, adminsocket.RecordReader{
		Record: func(l *connlog.Line) error {
			each(l)
			return nil
		},
		Gap: func(adminsocket.Gap) error { return nil }, // there are none in what is past
		Reach: func(r adminsocket.Reach) error {
			_, err := io.WriteString(errOut, reachText(&r))
			return err
		},
	})
}

// recordFilter is the selection of records.
func (s *selection) recordFilter() (*connlog.Filter, error) {
	if s.older > 0 || s.idle > 0 || len(s.states.words) > 0 || len(s.standings.words) > 0 {
		return nil, usage("--outcome: is of connections that have ended; omit --older, --idle, --state and " +
			"--endpoint-state, or see portald tail --since")
	}
	f := &connlog.Filter{}
	all := map[string][]string{
		"service": s.services, "namespace": s.namespaces(), "pod": s.pods, "endpoint": s.endpoints, "ip": s.ips.text,
		"port": s.ports.text, "proto": s.protocols.words, "carried-by": s.carriers.words, "outcome": s.outcomes,
	}
	for key, value := range s.times {
		if *value != "" {
			all[key] = []string{*value}
		}
	}
	for key, values := range all {
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
		Start: l.Time.Time, LastMoved: l.End(), FirstByteMS: l.FirstByteMS, Attempts: l.Dials(),
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
