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
		Long: `List the service ports, one line for each port of a Service: its mode, how many of its endpoints clients of
this node can use, and what userspace mode has carried since the daemon started. PROBLEM says why the port, or
a part of it, is not served. NAME is [NAMESPACE/]NAME[:PORT]; * stands for any part.`,
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
		{name: "FRONTENDS", wide: true, cell: appendFrontends},
		{name: "ENDPOINTS", paint: paintUsable, cell: func(b []byte, s row) []byte {
			return strconv.AppendInt(append(strconv.AppendInt(b, int64(s.Usable), 10), '/'), int64(s.Endpoints), 10)
		}},
		{name: "OPEN", cell: func(b []byte, s row) []byte { return strconv.AppendInt(b, int64(s.Open), 10) }},
		{name: "ENDED", cell: func(b []byte, s row) []byte { return strconv.AppendUint(b, s.Ended, 10) }},
		{name: "FAILED", paint: paintFailed,
			cell: func(b []byte, s row) []byte { return strconv.AppendUint(b, s.Failed, 10) }},
		{name: "UP", cell: func(b []byte, s row) []byte { return appendSize(b, s.BytesUp) }},
		{name: "DOWN", cell: func(b []byte, s row) []byte { return appendSize(b, s.BytesDown) }},
		{name: "PROBLEM", paint: paintProblem, cell: func(b []byte, s row) []byte { return appendText(b, s.Problem) }},
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

func paintUsable(s *adminsocket.Service) paint {
	if s.Usable == 0 {
		return yellow
	}
	return plain
}

func paintFailed(s *adminsocket.Service) paint {
	if s.Failed > 0 {
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
	rank := map[string]func(*adminsocket.Service) uint64{
		"open":   func(s *adminsocket.Service) uint64 { return uint64(s.Open) },
		"ended":  func(s *adminsocket.Service) uint64 { return s.Ended },
		"failed": func(s *adminsocket.Service) uint64 { return s.Failed },
		"bytes":  func(s *adminsocket.Service) uint64 { return s.BytesUp + s.BytesDown },
	}[by]
	if rank != nil {
		slices.SortStableFunc(rows, func(a, b adminsocket.Service) int { return cmp.Compare(rank(&b), rank(&a)) })
	}
}
