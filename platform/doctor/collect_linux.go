package doctor

import (
	"context"
	"maps"
	"net/netip"
	"slices"
)

// look collects what there is on Linux.
func (f *Facts) collect(b *batch) {
	gather(b, "the process of portald", &f.Process, func(context.Context) (Process, error) {
		d, err := f.daemon()
		if err != nil {
			return Process{}, err
		}
		return readProcess(d.PID)
	})
	f.Sysctls = readSysctls()
	gather(b, "uname", &f.Kernel, readKernel)
	gather(b, "conntrack", &f.Conntrack, readConntrack)
	gather(b, "the lock of iptables", &f.XtablesLock, readLock)
	gather(b, "iptables", &f.IPTables, runIPTables)
	gather(b, "the listing of rules", &f.Rules, readRules)
	gather(b, "IPVS", &f.IPVS, readIPVS)
	gather(b, "the list of processes", &f.KubeProxies, findKubeProxies)
	gather(b, "the list of interfaces", &f.Links, readLinks)
	addrs := f.Services.Value.clusterIPs()
	gather(b, "routes", &f.Routes, func(ctx context.Context) (Routes, error) { return readRoutes(ctx, addrs) })
	ports := f.Services.Value.portNumbers()
	gather(b, "sockets", &f.Listeners, func(ctx context.Context) ([]Listener, error) { return readListeners(ctx, ports) })
	gather(b, "the number of sockets", &f.Sockets, readSockets)
	gather(b, "BPF", &f.Connects, readConnects)
	gather(b, "the clock", &f.Clock, readClock)
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
