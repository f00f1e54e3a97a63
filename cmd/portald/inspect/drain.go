package inspect

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

func drainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain ENDPOINT [--service NAME] [--undo]",
		Short: "Stop new connections of this node from using an endpoint",
		Long: `Stop new connections of userspace mode on this node from using an endpoint, until --undo or until the daemon
ends. Open connections continue; "portald conns --endpoint" lists them, and "portald cut" ends them. ENDPOINT
is address:port, an address, or a pod. The drain applies to this node only: to take a pod out of a Service on
all nodes, change its labels or its readiness.

Without --force, portald refuses to drain the last usable endpoint of a Service. Exit code 4: no Service on
this node has the endpoint. Exit code 1: portald refuses the drain for a Service.`,
		Example: `  # Stop new connections to a pod that misbehaves, then cut the open ones.
  portald drain shop/cart-a
  portald cut --pod shop/cart-a

  # Use it again.
  portald drain shop/cart-a --undo`,
		Args:              exactly("the endpoint, as address:port, address or pod", "portald drain shop/cart-a"),
		ValidArgsFunction: completeOne(completeDrainable()),
	}
	request := adminsocket.Drain{}
	f := cmd.Flags()
	f.StringVar(&request.Service, "service", "", "only of this Service, `[NAMESPACE/]NAME[:PORT]`; default: of all")
	undo := f.Bool("undo", false, "use the endpoint again")
	f.BoolVar(&request.Force, "force", false, "also if it is the last usable endpoint")
	complete(cmd, "service", completeServices())
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		request.Endpoint = args[0]
		client := dial.Client()
		defer client.Close()
		change, done := client.Drain, "drained"
		if *undo {
			change, done = client.Undrain, "not drained any more"
		}
		answer, err := change(cmd.Context(), request)
		if err != nil {
			return Failed(cmd.Context(), err)
		}
		if *undo && len(answer.Done) > 0 {
			answer.Refused = nil // where it was not drained nothing was to be undone
		}
		return printDrained(cmd.OutOrStdout(), answer, done)
	}
	return cmd
}

// printDrained says what became of the endpoint in each service port; the error says in which it was refused.
func printDrained(out io.Writer, answer adminsocket.DrainResult, done string) error {
	for _, e := range answer.Done {
		fmt.Fprintf(out, "%s %s %s: %s%s", printable.Text(e.Service), e.Protocol, e.Address, done, onNode(e.PortaldNode))
		if e.Open != nil {
			fmt.Fprintf(out, ", %s open", counted(*e.Open, "connection"))
		}
		fmt.Fprintln(out)
	}
	for i, e := range answer.Refused {
		if i == len(answer.Refused)-1 {
			return fmt.Errorf("drain %s %s %s%s: %s", printable.Text(e.Service), e.Protocol, e.Address, onNode(e.PortaldNode),
				printable.Text(e.Why))
		}
		fmt.Fprintf(out, "%s %s %s: refused%s: %s\n", printable.Text(e.Service), e.Protocol, e.Address,
			onNode(e.PortaldNode), printable.Text(e.Why))
	}
	return nil
}
