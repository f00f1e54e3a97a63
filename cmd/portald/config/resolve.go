package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/platform/inet"
)

// resolve makes a Config from documents that were checked.
func (d *documents) resolve() *Config {
	k, p := &d.kubeProxy, &d.portald
	sync, least := d.syncPeriods()
	c := &Config{
		Mode: d.serviceMode(), ProxyMode: d.proxyMode(), Writer: p.Writer, Masquerade: d.masquerade(), IPVS: d.ipvs(),
		ServiceCIDRs: prefixes(p.ServiceCIDRs), Interface: p.InterfaceName, ServiceProxyName: p.ServiceProxyName,
		ServeOverlay: p.OverlayNetwork == overlayServe,
		Manifests:    p.Manifests, ClientPods: p.ClientPods, RefusedAnnotations: p.RefusedAnnotations,
		API: d.api(), NodeAddress: specific(k.BindAddress),
		HealthAddress:  listenAddress(k.HealthzBindAddress, healthPort),
		MetricsAddress: listenAddress(k.MetricsBindAddress, metricsPort), BindAddressHardFail: k.BindAddressHardFail,
		AdminSocket: *p.AdminSocket, HandOverSocket: *p.HandOverSocket, KeepSocket: *p.KeepSocket,
		Profiling: k.EnableProfiling, ReadOnlyAPI: p.ReadOnlyAPI, Page: p.UI,
		NodePorts: nodePorts(k.NodePortAddresses), ExternalIPs: prefixes(p.ExternalIPCIDRs),
		NodeIPs: addresses(p.NodeIPs), DetectLocal: k.detectLocal(),
		ConnectionLog: p.ConnectionLog.connectionLog(), LogPath: p.Log.Path,
		LogFormat:   d.logFormat(),
		UDPSessions: int(*p.UDPMaxSessions), UDPTotal: int(p.UDPMaxSessionsTotal), Engine: p.Engine,
		SyncPeriod: sync.Duration, MinSync: least.Duration,
		IPTablesVariant: p.IPTablesVariant, OOMScoreAdj: int(*k.OOMScoreAdj), Conntrack: k.conntrack(),
		Settings: d.live(), documents: *d,
	}
	c.ProxyPorts, _ = parsePortRange(p.ProxyPortRange) // checked
	for _, family := range inet.Families() {
		c.LocalhostNodePorts[family] = *k.IPTables.LocalhostNodePorts && c.NodePorts.loopback(family)
	}
	return c
}

func (d *documents) ipvs() IPVS {
	c := d.kubeProxy.IPVS
	return IPVS{
		Scheduler: c.Scheduler, ExcludeCIDRs: prefixes(c.ExcludeCIDRs), StrictARP: c.StrictARP,
		TCPTimeout:    c.TCPTimeout.Duration,
		TCPFinTimeout: c.TCPFinTimeout.Duration, UDPTimeout: c.UDPTimeout.Duration, Fallback: d.portald.IPVS.Fallback,
	}
}

func (d *documents) api() API {
	c := d.kubeProxy.ClientConnection
	return API{
		Kubeconfig: c.Kubeconfig, Master: d.portald.Master, ContentType: c.ContentType,
		AcceptContentTypes: c.AcceptContentTypes,
		QPS:                c.QPS, Burst: int(c.Burst),
	}
}

// live are the settings that a reload may change.
func (d *documents) live() Settings {
	p := &d.portald
	return Settings{
		LogLevel: d.logLevel(), Policy: p.policy(), Events: p.ConnectionLog.events(),
		Drain: p.DrainTimeout.Duration, OnExit: OnExit(p.OnExit),
	}
}

// logLevel is the level of portald's own field, or else of kube-proxy's.
func (d *documents) logLevel() logrus.Level {
	if level, err := logrus.ParseLevel(d.portald.Log.Level); err == nil {
		return level
	}
	return LevelOf(int(d.kubeProxy.Logging.Verbosity))
}

func (d *documents) logFormat() string {
	if d.portald.Log.Format != "" {
		return d.portald.Log.Format
	}
	return d.kubeProxy.Logging.Format
}

// syncPeriods returns the sync periods of the mode's group of fields.
func (d *documents) syncPeriods() (sync, least metav1.Duration) {
	switch k := &d.kubeProxy; d.periods() {
	case modeIPVS:
		return k.IPVS.SyncPeriod, k.IPVS.MinSyncPeriod
	case modeNFTables:
		return k.NFTables.SyncPeriod, k.NFTables.MinSyncPeriod
	default:
		return k.IPTables.SyncPeriod, k.IPTables.MinSyncPeriod
	}
}

func (k *kubeProxyDocument) detectLocal() DetectLocal {
	switch mode := DetectLocalMode(k.DetectLocalMode); mode {
	case ByNodeCIDR:
		return DetectLocal{Mode: mode}
	case ByBridgeInterface:
		return DetectLocal{Mode: mode, Interface: k.DetectLocal.BridgeInterface}
	case ByInterfacePrefix:
		return DetectLocal{Mode: mode, Interface: k.DetectLocal.InterfaceNamePrefix}
	}
	return DetectLocal{Mode: ByClusterCIDR, CIDRs: prefixes(strings.Split(k.ClusterCIDR, ","))}
}

func (k *kubeProxyDocument) conntrack() Conntrack {
	c := k.Conntrack
	return Conntrack{
		MaxPerCore: int(*c.MaxPerCore), Min: int(*c.Min),
		TCPEstablished: c.TCPEstablishedTimeout.Duration, TCPCloseWait: c.TCPCloseWaitTimeout.Duration,
		UDP: c.UDPTimeout.Duration, UDPStream: c.UDPStreamTimeout.Duration, TCPBeLiberal: c.TCPBeLiberal,
	}
}

// nodePorts parses words and CIDRs; without any: all.
func nodePorts(from []string) NodePortAddresses {
	return NodePortAddresses{
		All: len(from) == 0 || slices.Contains(from, "all"), Primary: slices.Contains(from, "primary"),
		Localhost: slices.Contains(from, "localhost"), CIDRs: prefixes(from),
	}
}

// loopback tells whether they include the loopback address of a family.
func (n NodePortAddresses) loopback(family inet.Family) bool {
	return n.All || n.Localhost || slices.ContainsFunc(n.CIDRs, func(p netip.Prefix) bool {
		return p.Contains(family.Loopback())
	})
}

// listenAddress is where a server listens; empty: it is disabled.
func listenAddress(s, usualPort string) string {
	host, port := s, usualPort
	if address(s) != "" {
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil || strings.Trim(port, "0") == "" {
			return ""
		}
	}
	if addr, err := parseAddr(host); err == nil { // else there is none
		host = addr.String()
	}
	return net.JoinHostPort(host, port)
}
