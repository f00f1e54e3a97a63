package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/buildinfo"
)

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and what it was built from",
		Long:  `Print the version, the revision of the sources, the Go release and the system that it was built for.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "portald %s %s/%s\n", buildinfo.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.SetHelpFunc(help(nil))
	return cmd
}
