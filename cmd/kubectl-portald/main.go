// Command kubectl-portald is `kubectl portald`: the commands of portald that look into a node, and those that change
// what it does, for all nodes of a cluster. kubectl finds it by its name, on the PATH.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/buildinfo"
	"github.com/portald/portald/cmd/portald/debug"
	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/cmd/portald/inspect/capturing"
	"github.com/portald/portald/cmd/portald/inspect/top"
	"github.com/portald/portald/cmd/portald/report"
	"github.com/portald/portald/cmd/portald/ui"
	"github.com/portald/portald/platform/printable"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "portald:", printable.Lines(err.Error()))
		os.Exit(exitCode(err))
	}
}

func exitCode(err error) int {
	if e, ok := errors.AsType[interface {
		error
		CommandExitCode() int
	}](err); ok {
		return e.CommandExitCode()
	}
	return 1
}

const long = `Look into the portalds of all nodes of a cluster, through the API server alone: the commands are those of
portald on a node. Answers are those of all nodes, with the node that each is of: lists by row, counts added up,
records and changes in the order of time. A node that does not answer within ` + "5 s" + ` is named, and holds nothing up.

It runs "portald connect" in the pod of each node, so it takes the right to list pods, and to exec in those of
portald: see deploy/README.md. The cluster is that of kubectl: --kubeconfig, --context, --as and the others of
its flags are understood.`

const example = `  # The connections of one Service, on all nodes.
  kubectl portald conns --service shop/cart

  # Failures on any node, as they come.
  kubectl portald tail -f --outcome failed

  # Why does a Service not answer, and on which nodes?
  kubectl portald explain shop/cart

  # One node.
  kubectl portald services --on-node worker-2`

// root is the command without a name.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kubectl-portald COMMAND [flags]",
		Short:         "Look into the portalds of all nodes of a cluster",
		Long:          long,
		Example:       example,
		Version:       buildinfo.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl portald"},
	}
	cmd.AddGroup(
		&cobra.Group{ID: inspect.GroupReadOnly, Title: "Look into the cluster:"},
		&cobra.Group{ID: inspect.GroupChange, Title: "Change what it does:"},
	)
	for _, sub := range slices.DeleteFunc(slices.Concat(inspect.Commands(), others()), ofOneHost) {
		inspect.ForCluster(sub)
		sub.Example = strings.ReplaceAll(sub.Example, "  portald ", "  kubectl portald ")
		cmd.AddCommand(sub)
	}
	return cmd
}

// others are the commands that have packages of their own.
func others() []*cobra.Command {
	return []*cobra.Command{capturing.Command(), top.Command(), ui.Command(), debug.Command(),
		report.Command(buildinfo.Version())}
}

// ofOneHost tells whether a command is of the host that it runs on.
func ofOneHost(cmd *cobra.Command) bool {
	return slices.Contains([]string{"ready", "connect"}, cmd.Name())
}
