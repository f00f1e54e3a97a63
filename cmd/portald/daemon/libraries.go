package daemon

import (
	stdlog "log"
	"strings"

	"github.com/sirupsen/logrus"
)

// quietLibraries redirects what libraries say by Go's standard logger to log, at level debug: lines of another form
// would be in the log. It affects the whole process.
func quietLibraries(log logrus.FieldLogger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraryLines{log})
}

type libraryLines struct{ log logrus.FieldLogger }

// Write implements io.Writer: one call for each line.
func (l libraryLines) Write(line []byte) (int, error) {
	l.log.Debugf("Library: %s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
