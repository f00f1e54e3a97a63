package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/buildinfo"
	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/winservice"
)

// runAsService runs the daemon as a service of Windows.
func runAsService(flags *config.Flags) error {
	return winservice.Run(func(ctx context.Context, life winservice.Life) error {
		events, err := winservice.OpenEventLog()
		if err != nil {
			return err
		}
		defer events.Close()
		log, closeLog, cfg, err := openService(flags, events)
		if err != nil {
			events.Failed(err)
			return err
		}
		defer closeLog()
		log.Infof("portald started as a service: %s", buildinfo.Version())
		defer context.AfterFunc(ctx, func() { log.Infof("portald stops: %s", life.Reason()) })()
		go checkFirewall(ctx, log)
		err = daemon.Run(ctx, flags, cfg, log, buildinfo.Version(), daemon.Life{Started: life.Started, Cut: life.Cut})
		if err != nil {
			log.WithError(err).Error("portald ends with an error")
			return err
		}
		log.Info("portald has stopped")
		return nil
	})
}

// openService makes what a service needs that has neither a console nor a folder of its own: relative paths are in the
// folder of the daemon's files, and a panic is in a file there, which the next start tells.
func openService(
	flags *config.Flags, events *winservice.EventLog,
) (log *logrus.Logger, closeLog func() error, cfg *config.Config, err error) {
	if err := enter(platform.DataDir()); err != nil {
		return nil, nil, nil, err
	}
	panicked, err := winservice.WatchCrashes(platform.DataDir())
	if err != nil {
		return nil, nil, nil, err
	}
	if panicked != "" {
		events.Crashed(panicked)
	}
	cfg, warnings, err := flags.Complete()
	if err != nil {
		return nil, nil, nil, err
	}
	log, closeLog, err = openLog(cfg, warnings, events)
	return log, closeLog, cfg, err
}

// enter makes the folder of the daemon's files, and makes it the working directory.
func enter(dir string) error {
	if err := platform.MakeFolder(dir); err != nil {
		return fmt.Errorf("make the folder of portald: %w", err)
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("enter the folder of portald: %w", err)
	}
	return nil
}

// checkFirewall warns if the firewall has no rule for portald. There may be another one that does, or no firewall.
func checkFirewall(ctx context.Context, log *logrus.Logger) {
	program, err := os.Executable()
	if err != nil {
		program = "portald.exe"
	}
	there, err := firewall().Allows(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		log.WithError(err).Debug("Cannot read the rules of the firewall")
	case err == nil && !there:
		log.Warnf("No firewall rule is named %s: unless another rule allows it, pods and other hosts do not "+
			"reach Services by this node; run portald service install --firewall, or %s", winservice.Name,
			winservice.AllowCommand(program))
	}
}
