package daemon

import (
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/goroutine"
)

// openGoroutine opens the engine of goroutines with what Windows can do for it.
func openGoroutine() func(*splice.Core) (splice.Engine, error) {
	return goroutine.Open(goroutine.Host{Refusals: platform.ReportRefusals, Awaits: true})
}
