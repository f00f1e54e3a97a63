package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/winservice"
)

func startCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start the service, and wait until it runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			return withService(cmd, true, func(s *service) error { return s.start(ctx) })
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long the service may take to start")
	return cmd
}

// start starts the service. The error of one that does not start says why.
func (s *service) start(ctx context.Context) error {
	log, err := s.logOfService()
	if err != nil {
		return err
	}
	before := sizeOf(log)
	if err := winservice.Start(ctx, s.manager); err != nil {
		return s.whyNot(err, log, before)
	}
	fmt.Fprintln(s.out, "The service runs")
	return nil
}

// logOfService is the path of the log of the installed service. The error says why the service would not start with its
// configuration.
func (s *service) logOfService() (string, error) {
	now, err := s.manager.Status()
	if winservice.IsMissing(err) {
		return "", exitError{fmt.Errorf("the service is not installed (%w); run portald service install first", err),
			exitMissing}
	}
	if err != nil {
		return "", err
	}
	if err := enter(s.dir); err != nil {
		return "", err
	}
	flags, err := parseDaemon(now.Args)
	if err != nil {
		return "", fmt.Errorf("the service would not start with its flags: %w; run portald service install", err)
	}
	cfg, _, err := flags.Complete()
	if err != nil {
		return "", fmt.Errorf("the service would not start: %w", err)
	}
	return cfg.LogPath, nil
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// whyNot adds to an error the errors in the service's log since its size before.
func (s *service) whyNot(err error, path string, before int64) error {
	text, unread := os.ReadFile(path)
	if unread != nil || int64(len(text)) < before {
		return fmt.Errorf("%w; its reason is in the event log Application, source %s", err, winservice.Name)
	}
	var lines strings.Builder
	for line := range bytes.Lines(text[before:]) {
		if bytes.Contains(line, []byte("level=error")) || bytes.Contains(line, []byte(`"level":"error"`)) {
			fmt.Fprintf(&lines, "\n  %s", bytes.TrimSpace(line))
		}
	}
	if lines.Len() == 0 {
		return fmt.Errorf("%w; see %s, and the event log Application, source %s", err, path, winservice.Name)
	}
	return fmt.Errorf("%w; %s says:%s", err, path, lines.String())
}

func stopCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the service, and wait until open connections have ended and it has stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			return withService(cmd, false, func(s *service) error { return s.stop(ctx) })
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", stopTimeout, "how long the service may take to stop")
	return cmd
}

// stop stops the service.
func (s *service) stop(ctx context.Context) error {
	if err := winservice.Halt(ctx, s.manager); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "The service has stopped")
	return nil
}
