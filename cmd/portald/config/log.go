package config

import (
	"io"
	"time"

	"github.com/sirupsen/logrus"
)

// NewLogger returns the daemon's own log. Its level may be changed while it is in use.
func (c *Config) NewLogger(out io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(out)
	log.SetLevel(c.Settings.LogLevel)
	if c.LogFormat == "json" {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	} else {
		log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	}
	return log
}

// LevelOf is the level of a verbosity of kube-proxy (--v).
func LevelOf(verbosity int) logrus.Level {
	switch {
	case verbosity >= 6:
		return logrus.TraceLevel
	case verbosity >= 4:
		return logrus.DebugLevel
	}
	return logrus.InfoLevel
}
