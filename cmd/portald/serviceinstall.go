package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/winservice"
)

func installCommand() *cobra.Command {
	var allow bool
	cmd := &cobra.Command{
		Use:   "install [--firewall] [-- DAEMON FLAGS]",
		Short: "Install portald as a service, or change the one that is installed",
		Long: `Install this program as a Windows service, which starts with Windows and restarts after failures, and register
its source in the event log. The arguments after -- are the flags of the daemon, and are checked; the default is
--config %ProgramData%\portald\config.yaml. A service that is already installed gets these flags at its next start.`,
		Example: `  portald service install --firewall -- --config C:\k\config.yaml --hostname-override win-a
  portald service start`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return fmt.Errorf("%s: write -- before the flags of the daemon", args[0])
			}
			return withService(cmd, true, func(s *service) error { return s.install(cmd.Context(), args, allow) })
		},
	}
	cmd.Flags().BoolVar(&allow, "firewall", false, "allow portald in Windows' firewall, by a rule named portald")
	return cmd
}

// install installs the service with the daemon's arguments.
func (s *service) install(ctx context.Context, args []string, allow bool) error {
	if len(args) == 0 {
		args = s.defaultArgs()
	}
	if err := enter(s.dir); err != nil {
		return err
	}
	if err := checkDaemon(args); err != nil {
		return fmt.Errorf("the daemon would not start with these flags, whose relative paths are in %s: %w",
			s.dir, err)
	}
	if !slices.Contains(args, asServiceFlag) {
		args = append([]string{asServiceFlag}, args...)
	}
	created, err := winservice.Install(s.manager, winservice.Spec{Program: s.program, Args: args})
	if err != nil {
		return err
	}
	if err := s.events.install(); err != nil {
		return err
	}
	if created {
		fmt.Fprintln(s.out, "The service is installed; portald service start starts it")
	} else {
		fmt.Fprintln(s.out, "The service is changed, from its next start on")
	}
	return s.allow(ctx, allow)
}

const asServiceFlag = "--windows-service"

// checkDaemon checks whether the daemon starts with such arguments, as far as that can be known without a start.
func checkDaemon(args []string) error {
	flags, err := parseDaemon(args)
	if err != nil {
		return err
	}
	_, _, err = flags.Complete()
	return err
}

// allow adds the rule of the firewall, or says which is needed.
func (s *service) allow(ctx context.Context, add bool) error {
	if add {
		if err := s.firewall.Allow(ctx, s.program); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "The firewall allows portald to be reached")
		return nil
	}
	if there, err := s.firewall.Allows(ctx); err != nil || there {
		return nil // not known, or not needed
	}
	fmt.Fprintf(s.out, "The firewall has no rule for portald, which pods and other hosts may need to reach Services:\n"+
		"  %s\n", winservice.AllowCommand(s.program))
	return nil
}

func uninstallCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop and remove the service, its event source and its firewall rule",
		Long: `Stop and remove the service, its event log source and its firewall rule. Files in %ProgramData%\portald stay. If
the service is not installed, the command succeeds. If portald was killed before, "portald cleanup" removes the
addresses that it left.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			return withService(cmd, true, func(s *service) error { return s.uninstall(ctx) })
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", stopTimeout, "how long the service may take to stop")
	return cmd
}

// uninstall removes all that install made, whatever of it is there.
func (s *service) uninstall(ctx context.Context) error {
	err := winservice.Uninstall(ctx, s.manager)
	if err != nil && !winservice.IsMissing(err) {
		return err
	}
	if err := errors.Join(s.events.uninstall(), s.firewall.Remove(ctx)); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "The service is removed; its files stay in", s.dir)
	return nil
}

// within bounds a wait, and names the bound in its error.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("waited %s: %w", timeout, os.ErrDeadlineExceeded))
}
