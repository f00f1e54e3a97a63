package inspect

import (
	"context"
	"io"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/record"
)

func connsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "conns [flags]",
		Aliases: []string{"connections"},
		Short:   "List the open connections and UDP sessions",
		Long: `List the connections and UDP sessions that are open on this node, with their client, endpoint, bytes carried
and time since the last byte.

If a flag is given twice, either value matches; different flags must all match.`,
		Example: `  # The connections of one Service, the busiest first.
  portald conns --service shop/cart --sort bytes

  # Who still talks to a pod that is to be deleted, with the round-trip times of both sides.
  portald conns --pod shop/cart-a -o wide

  # Connections to endpoints that are no longer in their Services, by pod.
  portald conns --endpoint-state removed --group-by pod

  # Connections that have been open for ten minutes and idle for one, refreshed every 2 s.
  portald conns --older 10m --idle 1m --watch

  # Recent failed connections of a Service.
  portald conns --service shop/cart --outcome failed

  # The same of the last three hours, from the connection log too, by pod.
  portald conns --service shop/cart --outcome failed --since 3h --group-by pod

  # The ids of all connections of a client.
  portald conns --ip 10.244.1.7 -o json | jq '.[].id'`,
		Args: flagsOnly,
	}
	chosen := addSelection(cmd)
	cmd.Flags().StringSliceVar(&chosen.outcomes, "outcome", nil, "instead of open connections, ended ones with this "+
		"`OUTCOME`, or failed: any but ok and max_age; from the records in the daemon's memory, and with --since or "+
		"--until from the files of its connection log too")
	chosen.addTimes(cmd)
	complete(cmd, "outcome", words(outcomes()...))
	limit := cmd.Flags().Int("limit", 0, "print at most the first `NUMBER` in this order; 0: all")
	by := addGroupBy(cmd, "; the outcome of an open connection is its state")
	l := addListing(cmd, "age", "bytes", "idle", "rtt")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := chosen.checkTimes(); err != nil {
			return err
		}
		debug.SetGCPercent(400) // a twentieth of the time of a list of 100,000, after which this process ends
		query := chosen.query()
		query.Sort, query.Limit, query.TCP = adminsocket.Order(l.sort.word), *limit, l.output.word != outputTable
		client := dial.Client()
		defer client.Close()
		empty := chosen.empty("connections", chosen.filtered())
		return Failed(cmd.Context(), l.run(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
			if by.word != "" {
				return chosen.printGroups(cmd, client, newGroups(by.word), *limit, l, out)
			}
			if len(chosen.outcomes) > 0 {
				rows, err := chosen.ended(cmd.Context(), client, query, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				return printList(l, out, cmd.ErrOrStderr(), connColumns(dial, time.Now()), rows, empty)
			}
			if structured(l.output.word) {
				return encode(out, l.output.word, func(out io.Writer) error {
					return printConnsAsJSON(cmd.Context(), client, query, out)
				})
			}
			t := listTable(l, connColumns(dial, time.Now()))
			if err := addConns(cmd.Context(), client, query, t); err != nil {
				return err
			}
			return printTable(l, t, out, cmd.ErrOrStderr(), empty)
		}))
	}
	return cmd
}

// printGroups prints groups of the connections that are chosen.
func (s *selection) printGroups(
	cmd *cobra.Command, client *adminsocket.Client, g *groups, limit int, l *listing, out io.Writer,
) (err error) {
	open, now := len(s.outcomes) == 0, time.Now()
	if open {
		err = client.EachConnection(cmd.Context(), s.query(), func(c *adminsocket.Connection) error {
			g.addOpen(c, now)
			return nil
		})
	} else {
		err = s.eachEnded(cmd.Context(), client, cmd.ErrOrStderr(), g.addRecord)
	}
	if err != nil {
		return err
	}
	empty := s.empty("connections", s.filtered())
	return printList(l, out, cmd.ErrOrStderr(), g.columns(open), g.rows(limit), empty)
}

// addConns adds the connections to the table as they come: a node may have 100,000. They are sorted here, so that the
// daemon sends some while it looks at others; by RTT, which it would not send otherwise, and with a limit, there.
func addConns(
	ctx context.Context, client *adminsocket.Client, query adminsocket.ConnectionQuery, t *table[adminsocket.Connection],
) error {
	if order := query.Sort; query.Limit == 0 && order != adminsocket.ByRTT {
		query.Sort = ""
		t.place = func(c *adminsocket.Connection) place { return place{rank: order.Rank(c), id: c.ID} }
		return client.EachBatch(ctx, query, rowsOfPage, func(batch []adminsocket.Connection) error {
			t.addPage(batch)
			return nil
		})
	}
	return client.EachConnection(ctx, query, func(c *adminsocket.Connection) error {
		t.add(c)
		return nil
	})
}

// printConnsAsJSON prints what the daemon answers, with fields that this release does not know.
func printConnsAsJSON(
	ctx context.Context, client *adminsocket.Client, query adminsocket.ConnectionQuery, out io.Writer,
) error {
	j := newJSONList(out)
	if err := client.EachRow(ctx, "/v1/connections", query.Values(), j.add); err != nil {
		return err
	}
	return j.end()
}

// connColumns are the columns of `portald conns` at a moment.
func connColumns(dial *Dial, now time.Time) []column[adminsocket.Connection] {
	type row = *adminsocket.Connection
	return withNode(dial, func(c row) string { return c.PortaldNode }, []column[adminsocket.Connection]{
		{name: "ID", cell: func(b []byte, c row) []byte { return appendID(b, c.ID) }},
		{name: "SERVICE", cell: func(b []byte, c row) []byte { return appendText(b, c.Service) }},
		{name: "PROTO", cell: func(b []byte, c row) []byte { return appendText(b, c.Protocol) }},
		{name: "CLIENT", cell: func(b []byte, c row) []byte { return appendAddress(b, c.Client) }},
		{name: "CLIENT-POD", wide: true, cell: func(b []byte, c row) []byte { return appendText(b, c.ClientPod) }},
		{name: "FRONTEND", wide: true, cell: func(b []byte, c row) []byte { return appendAddress(b, c.OriginalDst) }},
		{name: "KIND", wide: true, cell: func(b []byte, c row) []byte { return appendText(b, c.Portal) }},
		{name: "PROXY", wide: true, cell: func(b []byte, c row) []byte { return appendAddress(b, c.Proxy) }},
		{name: "ENDPOINT", cell: func(b []byte, c row) []byte { return appendAddress(b, c.Endpoint) }},
		{name: "POD", cell: func(b []byte, c row) []byte { return appendText(b, c.Pod) }},
		{name: "NODE", wide: true, cell: func(b []byte, c row) []byte { return appendText(b, c.Node) }},
		{name: "ENDPOINT-STATE", wide: true, cell: func(b []byte, c row) []byte { return appendText(b, c.EndpointState) }},
		{name: "STATE", paint: paintState, cell: func(b []byte, c row) []byte { return appendText(b, c.State) }},
		{name: "AGE", cell: func(b []byte, c row) []byte { return appendAge(b, now, c.Start) }},
		{name: "IDLE", cell: func(b []byte, c row) []byte { return appendAge(b, now, c.LastMoved) }},
		{name: "FIRST-BYTE", wide: true, cell: func(b []byte, c row) []byte { return appendIfAny(b, c.FirstByteMS) }},
		{name: "UP", cell: func(b []byte, c row) []byte { return appendSize(b, c.BytesFromClient) }},
		{name: "DOWN", cell: func(b []byte, c row) []byte { return appendSize(b, c.BytesFromEndpoint) }},
		{name: "DIALS", wide: true,
			cell: func(b []byte, c row) []byte { return strconv.AppendInt(b, int64(c.Attempts), 10) }},
		{name: "CLIENT-RTT", wide: true, cell: func(b []byte, c row) []byte { return appendRTT(b, c.ClientTCP) }},
		{name: "ENDPOINT-RTT", wide: true, cell: func(b []byte, c row) []byte { return appendRTT(b, c.EndpointTCP) }},
		{name: "RETRANS", wide: true, cell: appendRetransmits},
		{name: "CARRIED-BY", wide: true, cell: func(b []byte, c row) []byte { return appendText(b, c.CarriedBy) }},
	})
}

// appendID writes the id of a record; connections that the kernel carries have none while they are open.
func appendID(b []byte, id uint64) []byte {
	if id == 0 {
		return append(b, none...)
	}
	return strconv.AppendUint(b, id, 10)
}

func appendRTT(b []byte, t *adminsocket.TCP) []byte {
	if t == nil {
		return append(b, none...)
	}
	return appendMillis(b, t.RTTms)
}

// appendRetransmits writes the segments that were sent again to the client and to the endpoint.
func appendRetransmits(b []byte, c *adminsocket.Connection) []byte {
	if c.ClientTCP == nil || c.EndpointTCP == nil {
		return append(b, none...)
	}
	b = strconv.AppendUint(b, uint64(c.ClientTCP.Retransmits), 10)
	return strconv.AppendUint(append(b, '/'), uint64(c.EndpointTCP.Retransmits), 10)
}

func paintState(c *adminsocket.Connection) paint {
	switch c.State {
	case "dialing", "waiting":
		return yellow
	case "half_closed", "delivering":
		return faint
	case "open":
		return plain
	}
	return paintOutcome(record.Outcome(c.State))
}
