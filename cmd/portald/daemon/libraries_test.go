package daemon

import (
	stdlog "log"
	"os"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// A library's messages are lines of portald's log, in its format.
func TestLibraries(t *testing.T) {
	defer stdlog.SetOutput(os.Stderr)
	defer stdlog.SetFlags(stdlog.LstdFlags)
	log, hook := logtest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	quietLibraries(log)
	stdlog.Printf("unknown attribute %d", 21)
	if e := hook.LastEntry(); e == nil || e.Level != logrus.DebugLevel || e.Message != "Library: unknown attribute 21" {
		t.Errorf("logged %+v", e)
	}
}
