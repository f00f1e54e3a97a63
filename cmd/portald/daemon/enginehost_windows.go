package daemon

import (
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice/goroutine"
)

// engineHost is what Windows can do for the engine of goroutines.
func engineHost() goroutine.Host {
	return goroutine.Host{Refusals: platform.ReportRefusals, Awaits: true}
}
