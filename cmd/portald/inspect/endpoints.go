package inspect

import (
	"cmp"
	"io"
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
open connections; and for userspace mode the dials, failures, times to connect and to the first byte (median
and 99th percentile of about the last thousand), and the last error. SERVICE is [NAMESPACE/]NAME[:PORT]; *
stands for any part.`,
		Example: `  # The endpoints of a Service, with their nodes and zones.
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
	f.StringSliceVar(&query.States, "state", nil, "in this `STATE`: "+list(endpointStates()))
	complete(cmd, "pod", completePods())
	complete(cmd, "endpoint", completeEndpoints())
	complete(cmd, "state", words(endpointStates()...))
	l := addListing(cmd, "service", "open", "dials", "failures", "dial", "first-byte")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.services = append(s.services, args...)
		query.ServiceQuery, query.IPs, query.Ports = s.query(), ips.values, ports.values
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
		{name: "STATE", paint: paintUse, cell: func(b []byte, e row) []byte { return appendText(b, e.State) }},
		{name: "OPEN", cell: func(b []byte, e row) []byte { return strconv.AppendInt(b, int64(e.Open), 10) }},
		{name: "DIALS", cell: func(b []byte, e row) []byte { return strconv.AppendUint(b, e.Dials, 10) }},
		{name: "FAILURES", paint: paintFailures,
			cell: func(b []byte, e row) []byte { return strconv.AppendUint(b, e.Failures, 10) }},
		{name: "DIAL-P50", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.DialP50ms) }},
		{name: "DIAL-P99", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.DialP99ms) }},
		{name: "BYTE-P50", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.FirstByteP50ms) }},
		{name: "BYTE-P99", cell: func(b []byte, e row) []byte { return appendIfAny(b, e.FirstByteP99ms) }},
		{name: "LAST-ERROR", cell: func(b []byte, e row) []byte { return appendLastError(b, now, e) }},
	}
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
	if e.Failures > 0 {
		return yellow
	}
	return plain
}

// sortEndpoints sorts by a value of --sort; they come in the order of their Services.
func sortEndpoints(rows []adminsocket.Endpoint, by string) {
	rank := map[string]func(*adminsocket.Endpoint) float64{
		"open":       func(e *adminsocket.Endpoint) float64 { return float64(e.Open) },
		"dials":      func(e *adminsocket.Endpoint) float64 { return float64(e.Dials) },
		"failures":   func(e *adminsocket.Endpoint) float64 { return float64(e.Failures) },
		"dial":       func(e *adminsocket.Endpoint) float64 { return orNegative(e.DialP99ms) },
		"first-byte": func(e *adminsocket.Endpoint) float64 { return orNegative(e.FirstByteP99ms) },
	}[by]
	if rank != nil {
		slices.SortStableFunc(rows, func(a, b adminsocket.Endpoint) int { return cmp.Compare(rank(&b), rank(&a)) })
	}
}

func orNegative(ms *float64) float64 {
	if ms == nil {
		return -1
	}
	return *ms
}
