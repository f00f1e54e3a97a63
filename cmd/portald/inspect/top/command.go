// Package top implements portald top: Services, endpoints, connections and records of the portald that runs on this
// node, on the whole terminal, kept up to date. It has only what the admin API returns, and computes rates from one
// answer to the next.
package top

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
)

// leastInterval is the shortest time between two looks: to list 100,000 connections takes up to 0.2 s.
const leastInterval = 200 * time.Millisecond

// Command returns portald top.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Watch Services, endpoints and connections in full screen",
		Long: `Watch the traffic that portald carries on this node, in full screen: Services with new connections, bytes and
failures per second, the endpoints of a Service, connections, and one connection with the kernel's figures
for its sockets. Press ? for the keys.

Rates are computed between two requests to the daemon. While the daemon is away, the last figures stay, and
the first line says so.`,
		Example: `  # The busiest Services; Enter leads to the endpoints of one, and from there to its connections.
  portald top

  # From the pod of portald on a node, refreshed every five seconds.
  kubectl -n kube-system exec -it daemonset/portald -- portald top --interval 5s`,
		Args: inspect.FlagsOnly,
	}
	dial := inspect.AddSocket(cmd)
	interval := cmd.Flags().Duration("interval", time.Second, "`TIME` between two requests to the daemon")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *interval < leastInterval {
			return inspect.Usage("--interval %v: must be %v or more", *interval, leastInterval)
		}
		if err := checkTerminal(cmd.InOrStdin(), cmd.OutOrStdout()); err != nil {
			return err
		}
		ctx, client := cmd.Context(), dial.Client()
		defer client.Close()
		if _, err := client.Info(ctx); err != nil {
			return inspect.Failed(ctx, err)
		}
		terminal, err := tcell.NewScreen()
		if err != nil {
			return noTerminal(err)
		}
		if err := terminal.Init(); err != nil {
			return noTerminal(err)
		}
		defer dial.HoldMessages()()
		return newScreen(client, *interval, colorsOf(os.Getenv)).run(ctx, terminal)
	}
	return inspect.ReadOnly(cmd)
}

// checkTerminal refuses what cannot be drawn on.
func checkTerminal(in io.Reader, out io.Writer) error {
	if !inspect.OnTerminal(in) || !inspect.OnTerminal(out) {
		return noTerminal(errors.New("standard input or output is not a terminal"))
	}
	if os.Getenv("TERM") == "dumb" {
		return noTerminal(errors.New("TERM=dumb"))
	}
	return nil
}

func noTerminal(why error) error {
	return inspect.Usage("%w: portald top needs a terminal that it can draw on; portald conns --watch prints lists to "+
		"any output", why)
}

// initializedScreen does nothing on Init: the library would initialize the screen again, and drop the error.
type initializedScreen struct{ tcell.Screen }

// Init implements tcell.Screen.
func (initializedScreen) Init() error { return nil }

// run shows the screen on a terminal that was initialized, until the user leaves it or ctx ends.
func (s *screen) run(ctx context.Context, terminal tcell.Screen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.app.SetScreen(initializedScreen{terminal})
	// The library stops safely on its own goroutine alone. Once that has ended, the call waits for the end of the process.
	context.AfterFunc(ctx, func() { s.app.QueueUpdate(s.app.Stop) })
	go s.follow(ctx)
	return s.app.Run()
}
