package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the module's version, and the revision that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// versionOf takes both from what the go command has found in git: the version is the tag of the commit, v0.1.0; between
// tags what follows the last one, v0.1.1-0.20261124141856-3e4575ae7f3f; with +dirty where files were changed.
func versionOf(info *debug.BuildInfo) string {
	out := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out += " " + s.Value
		}
	}
	return fmt.Sprintf("%s (%s)", out, info.GoVersion)
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and what it was built from",
		Long:  `Print the version, the revision of the sources, the Go release and the system that it was built for.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "portald %s %s/%s\n", version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.SetHelpFunc(help(nil))
	return cmd
}
