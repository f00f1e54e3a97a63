package goroutine_test

import (
	"testing"

	"golang.org/x/sys/windows"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice/goroutine"
	"github.com/portald/portald/proxy/splicetest"
)

// The engine with the calls of Windows.
func TestSuite(t *testing.T) {
	e := splicetest.Engine{Open: goroutine.Open(goroutine.Host{Refusals: platform.ReportRefusals, Awaits: true})}
	if !underWine() {
		e.Can = splicetest.Refusals
	}
	splicetest.Run(t, e)
}

// underWine tells whether this is Wine, which reports a closed port not to a receive that waits, but to the next one.
func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
