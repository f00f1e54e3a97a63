package main

import (
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/buildinfo"
	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/succession"
	"github.com/portald/portald/proxy/succession/handover"
)

// keepReserved is how many descriptors a keeper leaves to itself.
const keepReserved = 64

func keepCommands() []*cobra.Command { return []*cobra.Command{keepCommand()} }

func keepCommand() *cobra.Command {
	socket, keepFor := config.DefaultKeepSocket(), 5*time.Minute
	cmd := &cobra.Command{
		Use:   "keep [--socket PATH] [--for TIME]",
		Short: "Hold a portald's listeners and open connections in case it crashes",
		Long: `Hold file descriptors of the portald that runs on this node, and do nothing else: its listeners, its open
connections that are older than ` + succession.KeptAge.String() + `, and the shared memory that says what portald has read from
them and not yet written. If portald dies (SIGKILL, out of memory, a bug), the next one continues these connections;
new connections wait until it has started. A connection is reset if the next portald cannot prove what was written.

portald looks for the keeper when it starts, next to its admin socket.`,
		Example: `  portald keep &
  portald --config /etc/portald/config.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := (&config.Config{Settings: config.Settings{LogLevel: logrus.InfoLevel}}).NewLogger(os.Stderr)
			limit, _, err := platform.RaiseNoFile()
			if err != nil {
				log.WithError(err).Warn("Cannot raise the limit of open descriptors")
			}
			k := &handover.Keeper{Log: log, Limit: int(limit) - keepReserved, For: keepFor}
			log.Infof("portald %s keeps at %s: up to %d descriptors", buildinfo.Version(), socket, k.Limit)
			return k.Serve(cmd.Context(), socket)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "Unix socket (`PATH`) where portald finds it: its --keep-socket")
	cmd.Flags().DurationVar(&keepFor, "for", keepFor, "`TIME` to hold the connections of a portald that died, before "+
		"they are reset")
	cmd.SetHelpFunc(help(nil))
	return cmd
}
