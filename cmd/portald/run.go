package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/buildinfo"
	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon"
	"github.com/portald/portald/cmd/portald/writers"
)

func runCommand() *cobra.Command {
	flags := config.NewFlags()
	cmd := &cobra.Command{
		Use:           "portald [--config FILE] [flags]",
		Short:         "A Kubernetes service proxy that you can see into",
		Long:          long,
		Example:       example,
		Args:          onlyCommands,
		Version:       buildinfo.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), flags) },
	}
	addFlags(cmd, flags.Sections())
	cmd.SetHelpCommand(helpCommand(cmd.HelpFunc()))
	cmd.SetHelpFunc(screen)
	return cmd
}

// run runs the daemon, unless flags ask for something else.
func run(ctx context.Context, flags *config.Flags) error {
	switch {
	case flags.WriteTo != "" || flags.Cleanup || flags.InitOnly:
		return runOnce(ctx, flags)
	case flags.AsService():
		return runAsService(flags)
	}
	life, successor := asSuccessor()
	if flags.TakeOver && !successor {
		return takeOver(ctx)
	}
	cfg, warnings, err := flags.Complete()
	if err != nil {
		return err
	}
	log, closeLog, err := openLog(cfg, warnings)
	if err != nil {
		return err
	}
	defer closeLog()
	return daemon.Run(ctx, flags, cfg, log, buildinfo.Version(), life)
}

// runOnce does what flags ask for in place of the daemon.
func runOnce(ctx context.Context, flags *config.Flags) error {
	cfg, log, err := complete(flags)
	switch {
	case err != nil:
		return err
	case flags.WriteTo != "":
		return cfg.Write(flags.WriteTo)
	case flags.Cleanup:
		return writers.Cleanup(ctx, cfg, log)
	}
	return initOnly(cfg, log)
}

// initOnly prepares the host for a daemon with fewer rights. A kernel without a conntrack table yet has nothing to set:
// the daemon's own rules load it.
func initOnly(cfg *config.Config, log *logrus.Logger) error {
	err := daemon.Prepare(cfg, log)
	if errors.Is(err, fs.ErrNotExist) {
		log.WithError(err).Warn("Cannot set all kernel settings")
		return nil
	}
	return err
}
