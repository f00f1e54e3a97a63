package inspect

import (
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
)

func servicesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "services [NAME...] [flags]",
		Aliases: []string{"svc"},
		Short:   "List the service ports that this node serves",
		Long: `List the service ports, one line for each port of a Service: its mode; how many of its endpoints clients of this
node are led to, without those that are drained or ejected; and what was carried since the daemon started. What
is not known is "-": in kernel mode OPEN is counted in the conntrack table, and the rest in records, if the
Service has them (kernelRecords). REFUSED, of -o wide, is counted by the rules in every mode: packets of clients
that were refused or dropped, most for want of an endpoint; a client that tries again sends several.
RCVBUF-ERRORS are UDP datagrams that the kernel dropped because a receive buffer of portald was full. PROBLEM is the
most important reason why clients are not served, or not as the Service asks; -o json has all. NAME is
[NAMESPACE/]NAME[:PORT]; * stands for any part.`,
		Example: `  # All service ports of one namespace, the busiest first.
  portald services -n shop --sort bytes

  # One Service with its frontends, which Service has each of them, and the reason for its mode.
  portald services shop/cart -o wide`,
		ValidArgsFunction: completeArgs(completeServices()),
	}
	s := &scope{}
	s.add(cmd)
	l := addListing(cmd, "name", "open", "ended", "failed", "bytes")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.services = append(s.services, args...)
		client := dial.Client()
		defer client.Close()
		return Failed(cmd.Context(), l.run(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
			rows, err := client.Services(cmd.Context(), s.query())
			if err != nil {
				return err
			}
			sortServices(rows, l.sort.word)
			return printList(l, out, cmd.ErrOrStderr(), serviceColumns(), rows, s.empty("Services", false))
		}))
	}
	return cmd
}

func serviceColumns() []column[adminsocket.Service] {
	type row = *adminsocket.Service
	return []column[adminsocket.Service]{
		{name: "NAME", cell: func(b []byte, s row) []byte { return appendText(b, s.Name) }},
		{name: "PROTO", cell: func(b []byte, s row) []byte { return appendText(b, s.Protocol) }},
		{name: "MODE", cell: func(b []byte, s row) []byte { return appendText(b, s.Mode) }},
		{name: "MODE-FROM", wide: true, cell: func(b []byte, s row) []byte { return appendText(b, s.ModeFrom) }},
		{name: "PAYLOAD", wide: true, cell: func(b []byte, s row) []byte { return appendText(b, s.KeepPayload) }},
		{name: "FRONTENDS", wide: true, cell: appendFrontends},
		{name: "ENDPOINTS", paint: paintUsable, cell: func(b []byte, s row) []byte {
			return strconv.AppendInt(append(strconv.AppendInt(b, int64(s.Usable), 10), '/'), int64(s.Endpoints), 10)
		}},
		{name: "OPEN", cell: func(b []byte, s row) []byte { return appendCount(b, s.Open) }},
		{name: "ENDED", cell: func(b []byte, s row) []byte { return appendCount(b, s.Ended) }},
		{name: "FAILED", paint: paintFailed, cell: func(b []byte, s row) []byte { return appendCount(b, s.Failed) }},
		{name: "REFUSED", wide: true, cell: func(b []byte, s row) []byte { return appendCount(b, s.RefusedPackets) }},
		{name: "RCVBUF-ERRORS", wide: true, cell: func(b []byte, s row) []byte {
			return appendCount(b, s.ReceiveBufferErrors)
		}},
		{name: "UP", cell: func(b []byte, s row) []byte { return appendSizeIfAny(b, s.BytesUp) }},
		{name: "DOWN", cell: func(b []byte, s row) []byte { return appendSizeIfAny(b, s.BytesDown) }},
		{name: "PROBLEM", paint: paintProblem, cell: appendProblem},
	}
}

// appendFrontends writes each frontend with its kind and target, and who else holds it.
func appendFrontends(b []byte, s *adminsocket.Service) []byte {
	if len(s.Frontends) == 0 {
		return append(b, none...)
	}
	for i, f := range s.Frontends {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(appendAddress(b, f.Address), '('), f.Kind)
		b = appendText(append(b, ':'), f.Target)
		if f.Port != 0 {
			b = strconv.AppendUint(append(b, ':'), uint64(f.Port), 10)
		}
		if f.Holder != "" {
			b = appendText(append(b, ":held-by:"...), f.Holder)
		}
		b = append(b, ')')
	}
	return b
}

// appendProblem writes the most important problem, and how many more there are.
func appendProblem(b []byte, s *adminsocket.Service) []byte {
	b = appendText(b, s.Problem)
	if more := len(s.Problems) - 1; more > 0 {
		b = append(strconv.AppendInt(append(b, " (and "...), int64(more), 10), " more)"...)
	}
	return b
}

func paintUsable(s *adminsocket.Service) paint {
	if s.Usable == 0 {
		return yellow
	}
	return plain
}

func paintFailed(s *adminsocket.Service) paint {
	if s.Failed != nil && *s.Failed > 0 {
		return yellow
	}
	return plain
}

func paintProblem(s *adminsocket.Service) paint {
	if s.Problem != "" {
		return red
	}
	return plain
}

// sortServices sorts by a value of --sort; they come in the order of their names.
func sortServices(rows []adminsocket.Service, by string) {
	rank := map[string]func(*adminsocket.Service) float64{
		"open":   func(s *adminsocket.Service) float64 { return orNegative(s.Open) },
		"ended":  func(s *adminsocket.Service) float64 { return orNegative(s.Ended) },
		"failed": func(s *adminsocket.Service) float64 { return orNegative(s.Failed) },
		"bytes":  func(s *adminsocket.Service) float64 { return orNegative(s.BytesUp) + orNegative(s.BytesDown) },
	}[by]
	if rank != nil {
		slices.SortStableFunc(rows, func(a, b adminsocket.Service) int { return cmp.Compare(rank(&b), rank(&a)) })
	}
}
