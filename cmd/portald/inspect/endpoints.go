package inspect

import (
	"cmp"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
)

func endpointsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "endpoints [SERVICE...] [flags]",
		Aliases: []string{"ep"},
		Short:   "List endpoints: their state, connections, dials and failures",
		Long: `List the endpoints of service ports as this node sees them: whether its clients can use them, and if not, why;
open connections; dials, failures and the last error; and times to connect and to the first byte (median and
99th percentile of about the last thousand). SINCE is when it was added, or became ready, unready, terminating,
drained, ejected or none of these again, if portald changes still has that.

What is not known is "-": in kernel mode OPEN is counted in the conntrack table, dials and failures in records,
if the Service has them (kernelRecords), and there are no times.

SERVICE is [NAMESPACE/]NAME[:PORT]; * stands for any part.`,
		Example: `  # The endpoints of a Service, with their nodes, zones, round-trip times and retransmissions.
  portald endpoints shop/cart -o wide

  # Which endpoints answer slowest, and which failed most.
  portald endpoints --sort first-byte
  portald endpoints --sort failures`,
		ValidArgsFunction: completeArgs(completeServices()),
	}
	s := &scope{of: " of"}
	query := adminsocket.EndpointQuery{}
	ips, ports := each[netip.Prefix]{parse: parsePrefix}, each[uint16]{parse: parsePort}
	s.add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&query.Pods, "pod", nil, "of this pod, `[NAMESPACE/]POD`")
	f.StringSliceVar(&query.Endpoints, "endpoint", nil, "this endpoint, `ADDRESS[:PORT]` or its pod")
	f.Var(&ips, "ip", "with this `ADDRESS` or CIDR")
	f.Var(&ports, "port", "with this `PORT`")
	states := choices{among: endpointStates()}
	addChoices(cmd, &states, "state", "in this `STATE`: "+list(endpointStates()))
	complete(cmd, "pod", completePods())
	complete(cmd, "endpoint", completeEndpoints())
	l := addListing(cmd, "service", "open", "dials", "failures", "dial", "first-byte")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.services = append(s.services, args...)
		query.ServiceQuery, query.IPs, query.Ports, query.States = s.query(), ips.values, ports.values, states.words
		filtered := len(slices.Concat(query.Pods, query.Endpoints, query.States, ips.text, ports.text)) > 0
		client := dial.Client()
		defer client.Close()
		return Failed(cmd.Context(), l.run(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
			rows, err := client.Endpoints(cmd.Context(), query)
			if err != nil {
				return err
			}
			sortEndpoints(rows, l.sort.word)
			return printList(l, out, cmd.ErrOrStderr(), endpointColumns(time.Now()), rows, s.empty("endpoints", filtered))
		}))
	}
	return cmd
}

// endpointStates are the states of Endpoint.State.
func endpointStates() []string {
	return []string{"used", "terminating", "not_ready", "other_node", "not_hinted", "other_family", "drained", "ejected",
		"removed"}
}

func endpointColumns(now time.Time) []column[adminsocket.Endpoint] {
	type row = *adminsocket.Endpoint
	return []column[adminsocket.Endpoint]{
		{name: "SERVICE", cell: func(b []byte, e row) []byte { return appendText(b, e.Service) }},
		{name: "PROTO", cell: func(b []byte, e row) []byte { return appendText(b, e.Protocol) }},
		{name: "ENDPOINT", cell: func(b []byte, e row) []byte { return appendAddress(b, e.Address) }},
		{name: "POD", cell: func(b []byte, e row) []byte { return appendText(b, e.Pod) }},
		{name: "NODE", wide: true, cell: func(b []byte, e row) []byte { return appendText(b, e.Node) }},
		{name: "ZONE", wide: true, cell: func(b []byte, e row) []byte { return appendText(b, e.Zone) }},
		{name: "STATE", paint: paintUse, cell: func(b []byte, e row) []byte { return appendStates(b, e) }},
		{name: "SINCE", cell: func(b []byte, e row) []byte { return appendAgo(b, now, e.Since) }},
		{name: "OPEN", cell: func(b []byte, e row) []byte { return appendCount(b, e.Open) }},
		{name: "DIALS", cell: func(b []byte, e row) []byte { return appendCount(b, e.Dials) }},
		{name: "FAILURES", paint: paintFailures, cell: func(b []byte, e row) []byte { return appendCount(b, e.Failures) }},
		{name: "DIAL-P50", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.DialP50ms) }},
		{name: "DIAL-P99", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.DialP99ms) }},
		{name: "BYTE-P50", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.FirstByteP50ms) }},
		{name: "BYTE-P99", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.FirstByteP99ms) }},
		{name: "RTT", wide: true, cell: func(b []byte, e row) []byte { return appendIfAny(b, e.RTTms) }},
		{name: "RETRANS", wide: true, cell: func(b []byte, e row) []byte { return appendCount(b, e.Retransmits) }},
		{name: "OUT-OF-ORDER", wide: true, cell: func(b []byte, e row) []byte { return appendCount(b, e.OutOfOrder) }},
		{name: "LAST-ERROR", cell: func(b []byte, e row) []byte { return appendLastError(b, now, e) }},
	}
}

// appendStates writes the state, or which ones the nodes see that were asked: used(2),other_node(1).
func appendStates(b []byte, e *adminsocket.Endpoint) []byte {
	if len(e.States) == 0 {
		return appendText(b, e.State)
	}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(e.States)), func(state string) bool { return state == e.State })
	for i, state := range slices.Insert(rest, 0, e.State) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(append(appendText(b, state), '('), int64(e.States[state]), 10), ')')
	}
	return b
}

// appendAgo writes how long ago something was.
func appendAgo(b []byte, now time.Time, at *time.Time) []byte {
	if at == nil {
		return append(b, none...)
	}
	return append(appendAge(b, now, *at), " ago"...)
}

// appendLastError writes the last error and how long ago it was.
func appendLastError(b []byte, now time.Time, e *adminsocket.Endpoint) []byte {
	b = appendText(b, e.LastError)
	if e.LastErrorAt != nil {
		b = append(appendAge(append(b, " ("...), now, *e.LastErrorAt), " ago)"...)
	}
	return b
}

func paintUse(e *adminsocket.Endpoint) paint {
	switch e.State {
	case "used":
		return green
	case "not_ready", "terminating", "drained", "removed":
		return yellow
	}
	return faint
}

func paintFailures(e *adminsocket.Endpoint) paint {
	if e.Failures != nil && *e.Failures > 0 {
		return yellow
	}
	return plain
}

// sortEndpoints sorts by a value of --sort; they come in the order of their Services.
func sortEndpoints(rows []adminsocket.Endpoint, by string) {
	rank := map[string]func(*adminsocket.Endpoint) float64{
		"open":       func(e *adminsocket.Endpoint) float64 { return orNegative(e.Open) },
		"dials":      func(e *adminsocket.Endpoint) float64 { return orNegative(e.Dials) },
		"failures":   func(e *adminsocket.Endpoint) float64 { return orNegative(e.Failures) },
		"dial":       func(e *adminsocket.Endpoint) float64 { return orNegative(e.DialP99ms) },
		"first-byte": func(e *adminsocket.Endpoint) float64 { return orNegative(e.FirstByteP99ms) },
	}[by]
	if rank != nil {
		slices.SortStableFunc(rows, func(a, b adminsocket.Endpoint) int { return cmp.Compare(rank(&b), rank(&a)) })
	}
}
