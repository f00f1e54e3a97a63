package daemon

import (
	"net/netip"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal/service"
)

// whoIs tells which pod has an address, as splice.Options.WhoIs and flows.Options.WhoIs ask; nil: nobody knows.
type whoIs = func(client netip.Addr) (service.Workload, bool)

// whoIs asks the source of Services, which watches pods where that is asked for. It may be called before the source
// is made: what asks begins later.
func (d *daemon) whoIs(cfg *config.Config) whoIs {
	if !cfg.ClientPods {
		return nil
	}
	return func(client netip.Addr) (service.Workload, bool) { return d.source.cache.Workload(client) }
}
