package writers

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/netsh"
)

// Direct tells whether the portals of a configuration are listeners at frontends' own addresses: there are no rules,
// no proxy ports and no kernel modes.
func Direct(cfg *config.Config) bool { return cfg.Writer == Netsh }

// ServiceInterface is the interface that has addresses of Services: all that it has, and with Direct those without a
// network. There need not be one.
func ServiceInterface(cfg *config.Config) string {
	if Direct(cfg) {
		return cmp.Or(cfg.Interface, netsh.DefaultInterface)
	}
	return NamesOf(cfg).Device()
}

func netshOptions(cfg *config.Config, d Deps) netsh.Options {
	return netsh.Options{
		Listeners: d.Listeners, Interface: cfg.Interface,
		State:             filepath.Join(platform.DataDir(), "netsh"+strings.TrimPrefix(NamesOf(cfg).Table, ownTable)),
		NodePortAddresses: d.NodePorts, Failed: d.FailedPortal, Carried: d.Carried, Log: d.Log.Warnf,
	}
}
