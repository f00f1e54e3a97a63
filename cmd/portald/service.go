package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/winservice"
	"github.com/portald/portald/portal/netsh"
)

// service is the Windows service that `portald service` works on.
type service struct {
	manager  manager
	firewall winservice.Firewall
	events   struct{ install, uninstall func() error }
	program  string // that is installed
	dir      string // of the daemon's files
	out      io.Writer
}

// manager is the service control manager.
type manager interface {
	winservice.Installer
	winservice.Controller
}

// The exit codes of `portald service status`, as of init scripts.
const (
	exitStopped   = 3
	exitMissing   = 4
	exitOtherwise = 1
)

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

// CommandExitCode is the code that portald ends with. It has a name of its own: exec.ExitError has an ExitCode too.
func (e exitError) CommandExitCode() int { return e.code }

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var e interface{ CommandExitCode() int }
	if errors.As(err, &e) {
		return e.CommandExitCode()
	}
	return exitOtherwise
}

func serviceCommand() *cobra.Command {
	cmd := parent(&cobra.Command{
		Use:    "service",
		Short:  "Install, start and stop portald as a service of Windows",
		Hidden: runtime.GOOS != "windows",
	})
	cmd.SetHelpFunc(help(nil))
	cmd.AddCommand(installCommand(), uninstallCommand(), startCommand(), stopCommand(), statusCommand())
	return cmd
}

// withService runs an action of a command on the service of this host. It needs an administrator if it changes it.
func withService(cmd *cobra.Command, changes bool, do func(*service) error) error {
	m, err := winservice.Connect(changes)
	if err != nil {
		return err
	}
	defer m.Close()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to install: %w", err)
	}
	s := &service{
		manager: m, firewall: firewall(), program: program, dir: platform.DataDir(), out: cmd.OutOrStdout(),
	}
	s.events.install, s.events.uninstall = winservice.InstallEvents, winservice.UninstallEvents
	return do(s)
}

func firewall() winservice.Firewall {
	return winservice.Firewall{Netsh: func(ctx context.Context, args ...string) (int, string, error) {
		result, err := netsh.Command(ctx, args...)
		return result.Code, result.Output, err
	}}
}

// defaultArgs are the daemon's arguments if none are given.
func (s *service) defaultArgs() []string {
	return []string{"--config", filepath.Join(s.dir, "config.yaml")}
}

// parseDaemon parses the arguments of the daemon.
func parseDaemon(args []string) (*config.Flags, error) {
	flags := config.NewFlags()
	cmd := &cobra.Command{Use: "portald"}
	addFlags(cmd, flags.Sections())
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	if rest := cmd.Flags().Args(); len(rest) > 0 {
		return nil, fmt.Errorf("%s: the daemon takes flags only", strings.Join(rest, " "))
	}
	return flags, nil
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the state of the service; exit code 0: it runs, 3: it does not, 4: it is not installed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withService(cmd, false, func(s *service) error { return s.status() })
		},
	}
}

// status prints the state of the service.
func (s *service) status() error {
	now, err := s.manager.Status()
	if winservice.IsMissing(err) {
		return exitError{errors.New("the service is not installed"), exitMissing}
	}
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "NAME\tSTATE\tPID\tEXIT CODE\tSTART\tCOMMAND\n%s\t%s\t%d\t%d\t%s\t%s\n", winservice.Name, now.State,
		now.PID, now.ExitCode(), now.Start, strings.Join(append([]string{now.Program}, config.ShownLine(now.Args)...), " "))
	if err := table.Flush(); err != nil {
		return err
	}
	if now.State != winservice.Running {
		return exitError{fmt.Errorf("the service is %s", now.State), exitStopped}
	}
	return nil
}

// stopTimeout is how long stop and uninstall wait by default.
const stopTimeout = 2 * time.Minute
