package winservice

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/printable"
)

// Levels implements logrus.Hook.
func (l *EventLog) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel, logrus.InfoLevel}
}

// Fire implements logrus.Hook: it writes the events among the lines of a log.
func (l *EventLog) Fire(line *logrus.Entry) error {
	if id := eventOf(severityAt(line.Level), line.Message); id != 0 {
		l.write(id, textOf(line))
	}
	return nil
}

func severityAt(level logrus.Level) Severity {
	switch {
	case level <= logrus.ErrorLevel:
		return Error
	case level == logrus.WarnLevel:
		return Warning
	}
	return Information
}

// textOf is a line with its fields, each on a line of its own.
func textOf(line *logrus.Entry) string {
	var out strings.Builder
	out.WriteString(printable.Text(line.Message))
	for _, name := range slices.Sorted(maps.Keys(line.Data)) {
		fmt.Fprintf(&out, "\n%s: %s", name, printable.Text(fmt.Sprint(line.Data[name])))
	}
	return out.String()
}
