// Command portald is a Kubernetes service proxy that one can see into.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "portald:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "portald --manifests PATH",
		Short:         "A Kubernetes service proxy that you can see into",
		Long:          long,
		Example:       example,
		Args:          cobra.NoArgs,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return run(cmd.Context(), &o)
		},
	}
	host := o.hostFlags()
	daemon := append(o.daemonFlags(), host...)
	for _, s := range daemon {
		cmd.Flags().AddFlagSet(s.flags)
	}
	cmd.SetHelpFunc(help(daemon))
	cmd.AddCommand(cleanupCommand(&o, host))
	cmd.CompletionOptions.HiddenDefaultCmd = true
	return cmd
}

func cleanupCommand(o *options, flags []section) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove every rule of portald from this host, and nothing else",
		Long: `Remove every chain, rule and jump that portald wrote on this host, in both address families, and nothing of anyone
else's. A running portald writes them again; stop it first. It is no error when there is nothing to remove.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cleanup(cmd.Context(), o) },
	}
	for _, s := range flags {
		cmd.Flags().AddFlagSet(s.flags)
	}
	cmd.SetHelpFunc(help(flags))
	return cmd
}

// version is the module's version, or the revision it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	out := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out += " " + s.Value
		}
	}
	return fmt.Sprintf("%s (%s)", out, info.GoVersion)
}
