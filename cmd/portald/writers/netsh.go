package writers

import (
	"net/netip"
	"os"
	"path/filepath"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/netsh"
	"github.com/portald/portald/proxy/service"
)

// Direct tells whether the portals of a configuration are listeners at frontends' own addresses: there are no rules,
// no proxy ports and no kernel modes.
func Direct(cfg *config.Config) bool { return cfg.Writer == Netsh }

// newNetsh returns the writer of Windows. Without listeners it can only clean up.
func newNetsh(cfg *config.Config, d Deps) (portal.HostWriter, error) {
	o := netsh.Options{
		Listeners: d.Listeners, State: filepath.Join(os.Getenv("ProgramData"), "portald", "addresses.json"),
		NodePortAddresses: d.NodePorts, Failed: d.FailedPortal, Log: d.Log.Warnf,
	}
	if o.Listeners == nil {
		o.Listeners = noListeners{}
	}
	return netsh.New(o)
}

// noListeners have nothing open.
type noListeners struct{}

func (noListeners) Listen(service.PortName, netip.AddrPort) error { return nil }

func (noListeners) Unlisten(service.PortName, netip.AddrPort) {}
