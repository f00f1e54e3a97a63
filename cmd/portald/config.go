package main

import (
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file",
		Args:  cobra.NoArgs,
	}
	cmd.SetHelpFunc(help(nil))
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Print what a configuration file means, which settings have no effect here, and what is wrong with it",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return config.Check(args[0], cmd.OutOrStdout()) },
	})
	return cmd
}
