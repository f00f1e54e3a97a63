package doctor

import (
	"context"
	"maps"
	"net/netip"
	"slices"
)

// look collects what there is on Linux.
func (f *Facts) look(l *looks) {
	gather(l, "the process of portald", &f.Process, func(context.Context) (Process, error) {
		d, err := f.daemon()
		if err != nil {
			return Process{}, err
		}
		return readProcess(d.PID)
	})
	f.Sysctls = readSysctls()
	gather(l, "uname", &f.Kernel, readKernel)
	gather(l, "conntrack", &f.Conntrack, readConntrack)
	gather(l, "the lock of iptables", &f.XtablesLock, readLock)
	gather(l, "iptables", &f.IPTables, askIPTables)
	gather(l, "the listing of rules", &f.Rules, readRules)
	gather(l, "IPVS", &f.IPVS, readIPVS)
	gather(l, "the list of processes", &f.KubeProxies, findKubeProxies)
	gather(l, "the list of interfaces", &f.Links, readLinks)
	addrs := f.Services.Value.clusterIPs()
	gather(l, "routes", &f.Routes, func(ctx context.Context) (Routes, error) { return readRoutes(ctx, addrs) })
	ports := f.Services.Value.portNumbers()
	gather(l, "sockets", &f.Listeners, func(ctx context.Context) ([]Listener, error) { return readListeners(ctx, ports) })
	gather(l, "the number of sockets", &f.Sockets, readSockets)
	gather(l, "the clock", &f.Clock, readClock)
}

// clusterIPs are the addresses of Services that the node routes by its own routes.
func (all Services) clusterIPs() []netip.Addr {
	out := map[netip.Addr]struct{}{}
	for _, s := range all {
		for _, fe := range s.Frontends {
			if fe.Kind == clusterIP {
				out[fe.Address.Addr()] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(out), netip.Addr.Compare)
}

// portNumbers are the ports of the node that clients of Services use.
func (all Services) portNumbers() map[uint16]bool {
	out := map[uint16]bool{}
	nodePorts, proxyPorts := all.ports()
	for p := range nodePorts {
		out[p.port] = true
	}
	for p := range proxyPorts {
		out[p.port] = true
	}
	return out
}
