package config

import (
	"io"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/printable"
)

// NewLogger returns the daemon's own log. Its level may be changed while it is in use.
func (c *Config) NewLogger(out io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(out)
	log.SetLevel(c.Settings.LogLevel)
	if c.LogFormat == "json" {
		log.SetFormatter(jsonLines{logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano}})
	} else {
		log.SetFormatter(&textLines{logrus.TextFormatter{
			FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00",
		}})
	}
	return log
}

// jsonLines are lines of JSON without characters that are not printable: names and errors come from others.
type jsonLines struct{ logrus.JSONFormatter }

// Format implements logrus.Formatter.
func (f jsonLines) Format(e *logrus.Entry) ([]byte, error) {
	line, err := f.JSONFormatter.Format(e)
	return printable.JSON(line), err
}

// textLines are such lines of text. The library quotes values, but not messages to a terminal.
type textLines struct{ logrus.TextFormatter }

// Format implements logrus.Formatter.
func (f *textLines) Format(e *logrus.Entry) ([]byte, error) {
	if !printable.ASCII(e.Message) {
		plain := *e
		plain.Message = printable.Text(e.Message)
		e = &plain
	}
	return f.TextFormatter.Format(e)
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
