// Command portald is a Kubernetes service proxy that one can see into.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
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
	flags := config.NewFlags()
	cmd := &cobra.Command{
		Use:           "portald [--config FILE] [flags]",
		Short:         "A Kubernetes service proxy that you can see into",
		Long:          long,
		Example:       example,
		Args:          cobra.NoArgs,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return start(cmd.Context(), flags) },
	}
	addFlags(cmd, flags.Sections())
	cmd.AddCommand(renderCommand(), cleanupCommand(), configCommand())
	cmd.CompletionOptions.HiddenDefaultCmd = true
	return cmd
}

func addFlags(cmd *cobra.Command, sections []config.Section) {
	for _, s := range sections {
		cmd.Flags().AddFlagSet(s.Flags)
	}
	cmd.SetHelpFunc(help(sections))
}

// start does what the flags ask for: to serve, unless they name something else.
func start(ctx context.Context, flags *config.Flags) error {
	cfg, log, err := complete(flags)
	if err != nil {
		return err
	}
	switch {
	case flags.WriteTo != "":
		return cfg.Write(flags.WriteTo)
	case flags.Cleanup:
		return cleanup(ctx, cfg, log)
	case flags.InitOnly:
		return initOnly(cfg, log)
	}
	return run(ctx, flags, cfg, log)
}

// complete makes the configuration that flags ask for, and its logger, which has been told of what there is to say of it.
func complete(flags *config.Flags) (*config.Config, *logrus.Logger, error) {
	cfg, warnings, err := flags.Complete()
	if err != nil {
		return nil, nil, err
	}
	log := cfg.NewLogger(os.Stderr)
	for _, w := range warnings {
		log.Warn(w)
	}
	return cfg, log, nil
}

// initOnly prepares the host for a daemon with fewer rights. A kernel that has not loaded its table of flows yet has nothing
// to be set: the daemon's own rules will load it.
func initOnly(cfg *config.Config, log *logrus.Logger) error {
	err := prepare(cfg, log)
	if errors.Is(err, fs.ErrNotExist) {
		log.WithError(err).Warn("Not everything could be set")
		return nil
	}
	return err
}

func renderCommand() *cobra.Command {
	flags := config.NewFlags()
	var only string
	cmd := &cobra.Command{
		Use:   "render --manifests PATH [--service NAMESPACE/NAME] [flags]",
		Short: "Show the rules that manifests make, as the host's own commands take them",
		Long: `Write the exact rules that portald with these flags would write for these manifests to standard output, as
iptables-restore, nft -f, or ipvsadm, ipset and iptables-restore take them. It needs no rights and no cluster, changes
nothing, and says the same for the same input. Listeners of userspace mode are assumed at the first free proxy ports.`,
		Example: `  # What would be written for a cluster, from a dump of it, in nftables mode.
  kubectl get services,endpointslices,nodes -A -o yaml | portald render --manifests - --proxy-mode nftables

  # One Service's share.
  portald render --manifests cluster.yaml --proxy-mode iptables --service kube-system/kube-dns`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := complete(flags)
			if err != nil {
				return err
			}
			return render(cmd.Context(), cfg, log, only, cmd.OutOrStdout())
		},
	}
	addFlags(cmd, flags.Sections())
	cmd.Flags().StringVar(&only, "service", "", "only the share of this Service, `NAMESPACE/NAME`")
	return cmd
}

func cleanupCommand() *cobra.Command {
	flags := config.NewFlags()
	flags.Cleanup = true
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove every rule of portald from this host, and nothing else",
		Long: `Remove every chain, rule and jump that portald wrote on this host, in both address families, and nothing of anyone
else's. A running portald writes them again; stop it first. It is no error when there is nothing to remove.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return start(cmd.Context(), flags) },
	}
	addFlags(cmd, flags.HostSections())
	return cmd
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at a configuration file",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Say what a configuration file means, what of it has no effect here, and what is wrong in it",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return config.Check(args[0], cmd.OutOrStdout()) },
	})
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
