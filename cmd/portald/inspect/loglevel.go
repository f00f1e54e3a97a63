package inspect

import (
	"fmt"

	"github.com/spf13/cobra"
)

func loglevelCommand() *cobra.Command {
	levels := []string{"error", "warn", "info", "debug", "trace"}
	cmd := &cobra.Command{
		Use:   "loglevel [LEVEL]",
		Short: "Print or set the level of the daemon's own log",
		Long: `Print the level of the daemon's own log, or set it: error, warn, info, debug or trace. A new level applies at
once, until the daemon restarts or its configuration file sets another level.`,
		Example:           `  portald loglevel debug`,
		Args:              atMostOneOf(levels),
		ValidArgsFunction: completeOne(words(levels...)),
	}
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client := dial.Client()
		defer client.Close()
		if len(args) > 0 {
			return Failed(cmd.Context(), client.SetLogLevel(cmd.Context(), args[0]))
		}
		info, err := client.Info(cmd.Context())
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), info.LogLevel)
		}
		return Failed(cmd.Context(), err)
	}
	return cmd
}
