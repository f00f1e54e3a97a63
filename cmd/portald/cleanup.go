package main

import (
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
)

func cleanupCommand() *cobra.Command {
	flags := config.NewFlags()
	flags.Cleanup = true
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove every rule of portald from this host, and nothing else",
		Long: `Remove every chain, rule and jump that portald wrote on this host, in both address families, and nothing else.
Stop a running portald first, because it writes them again. If there is nothing to remove, the command succeeds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), flags) },
	}
	addFlags(cmd, flags.HostSections())
	return cmd
}
