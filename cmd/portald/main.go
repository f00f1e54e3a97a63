// Command portald is a Kubernetes service proxy that you can see into.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/buildinfo"
	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon"
	"github.com/portald/portald/cmd/portald/debug"
	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/cmd/portald/inspect/capturing"
	"github.com/portald/portald/cmd/portald/inspect/top"
	"github.com/portald/portald/cmd/portald/report"
	"github.com/portald/portald/cmd/portald/ui"
	"github.com/portald/portald/platform/printable"
)

func main() {
	ctx, stop := untilSignal()
	defer stop()
	if err := execute(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "portald:", printable.Lines(err.Error()))
		os.Exit(exitCode(err))
	}
}

// execute runs a command line. cobra answers --help of a command that does not exist with the help of its parent;
// execute refuses it.
func execute(ctx context.Context, line []string) error {
	if err := helpOfUnknown(root(), line); err != nil {
		return err
	}
	cmd := root()
	cmd.SetArgs(line)
	return cmd.ExecuteContext(ctx)
}

// untilSignal returns a context that ends at SIGINT, with the cause daemon.ErrInterrupted, or at SIGTERM.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if <-signals == os.Interrupt {
			cancel(daemon.ErrInterrupted)
		} else {
			cancel(nil)
		}
	}()
	return ctx, func() { signal.Stop(signals) }
}

// root is the command without a name, which runs the daemon, with all others.
func root() *cobra.Command {
	cmd := runCommand()
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return config.FlagError(err) })
	cmd.AddGroup(
		&cobra.Group{ID: inspect.GroupReadOnly, Title: "Look into the portald that runs on this node"},
		&cobra.Group{ID: inspect.GroupChange, Title: "Change what it does"},
		&cobra.Group{ID: inspect.GroupRun, Title: "Run, install and prepare it"},
	)
	others := []*cobra.Command{capturing.Command(), top.Command(), ui.Command(), debug.Command(),
		report.Command(buildinfo.Version())}
	for _, sub := range append(inspect.Commands(), others...) {
		sub.SetHelpFunc(help(nil))
		cmd.AddCommand(sub)
	}
	own := []*cobra.Command{renderCommand(), cleanupCommand(), configCommand(), serviceCommand(),
		versionCommand()}
	for _, sub := range append(own, keepCommands()...) {
		sub.GroupID = inspect.GroupRun
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(inspect.ManCommand())
	addCompletion(cmd)
	return cmd
}

// addCompletion adds cobra's command that prints the completion for a shell.
func addCompletion(cmd *cobra.Command) {
	cmd.SetCompletionCommandGroupID(inspect.GroupRun)
	cmd.InitDefaultCompletionCmd()
	completion, _, err := cmd.Find([]string{"completion"})
	if err != nil {
		panic(err) // it was added the line before
	}
	completion.Short = "Print the completion of commands, flags and live names for a shell"
	parent(completion).SetHelpFunc(help(nil))
}

// addFlags gives a command flags, in sections of its help.
func addFlags(cmd *cobra.Command, sections []config.Section) {
	for _, s := range sections {
		cmd.Flags().AddFlagSet(s.Flags)
	}
	cmd.SetHelpFunc(help(sections))
}

// complete returns the configuration that flags make, and its logger to standard error, after logging the
// configuration's warnings.
func complete(flags *config.Flags) (*config.Config, *logrus.Logger, error) {
	cfg, warnings, err := flags.Complete()
	if err != nil {
		return nil, nil, err
	}
	log := cfg.NewLogger(os.Stderr)
	warn(log, warnings)
	return cfg, log, nil
}

func warn(log *logrus.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn(w)
	}
}
