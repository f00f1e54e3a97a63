package ipvs

import (
	"net/netip"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// Writer holds portals in IPVS, and passes the others on to Options.Rules.
type Writer struct {
	portal.Unsupported
	Options
	kernel
	look  func() (kernel, error) // opens another one, for any goroutine
	names names
	v6    bool // both families are served
	live  *writer.Live
	tried map[string]func() bool // schedulers: whether the kernel has them

	node     localNode // as of the last Replace
	portals  map[service.Frontend]portal.Portal
	servers  map[service.Frontend]*server
	excluded map[service.Frontend]bool // virtual servers of other programs, which are not to be changed
	draining map[service.Frontend]bool // frontends of servers that have draining endpoints
	elements writer.Refcount[entry]
	addrs    writer.Refcount[netip.Addr] // of the device, by portals and by virtual servers
	guard    bool                        // the Rules have changes of ports that are not written yet
	swept    time.Time
	sized    *sizes // after the last write or audit; nil: not known
	state    writer.State
}

// reset forgets what the kernel holds.
func (w *Writer) reset() {
	w.state.Forget()
	w.portals = map[service.Frontend]portal.Portal{}
	w.servers = map[service.Frontend]*server{}
	w.excluded = map[service.Frontend]bool{}
	w.draining = map[service.Frontend]bool{}
	w.elements, w.addrs = writer.NewRefcount[entry](), writer.NewRefcount[netip.Addr]()
}
