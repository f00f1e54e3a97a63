package config

import "k8s.io/apimachinery/pkg/util/validation"

// usedTopics are the settings that have an effect. Flags that kube-proxy has too bear its names.
func usedTopics() []topic {
	return []topic{
		{"Where Services come from", sourceSettings()},
		{"How Services are carried", modeSettings()},
		{"Connection records", []setting{
			{portald, "connectionLog.path", "connection-log", atStart, nil, "write one record for each connection and UDP session to this `FILE`, - for standard error; default: none"},
			{portald, "connectionLog.format", "connection-log-format", atStart, oneOf("json", "text"), "`FORMAT` of the records: json or text"},
		}},
		{"Health and metrics", []setting{
			{kubeProxy, "healthzBindAddress", "healthz-bind-address", atStart, serverAddress, "`ADDRESS` of the health server (/healthz, /livez); port 0, or an empty flag: none"},
			{kubeProxy, "metricsBindAddress", "metrics-bind-address", atStart, serverAddress, "`ADDRESS` of the metrics server (/metrics, /proxyMode); port 0, or an empty flag: none"},
			{kubeProxy, "bindAddressHardFail", "bind-address-hard-fail", atStart, nil, "end when one of these addresses cannot be bound, in place of trying again"},
			{kubeProxy, "enableProfiling", "profiling", atStart, nil, "serve /debug/pprof on the metrics server"},
		}},
		{"Frontends", []setting{
			{kubeProxy, "nodePortAddresses", "nodeport-addresses", atStart, nodePortAddress, "`CIDRS` of the node's addresses that NodePorts are served on, or the words primary, localhost, all; primary are those of the Node object. Default: all, with mode nftables primary"},
			{kubeProxy, "iptables.localhostNodePorts", "iptables-localhost-nodeports", atStart, nil, "serve NodePorts on 127.0.0.1 and ::1 too, if they are among the addresses for NodePorts"},
			{portald, "externalIPCIDRs", "external-ip-cidrs", atStart, cidr, "`CIDRS` that spec.externalIPs may claim addresses of; default: none, external IPs are off"},
			{portald, "nodeIPs", "node-ip", atStart, hostAddress, "`ADDRESS` of this node, one for each family: lead portals there, in place of the address of the interface that a connection came in by. For CNIs whose pod interfaces have none on the node's side"},
			{kubeProxy, "bindAddress", "bind-address", atStart, address, "`ADDRESS` of this node in place of the one that the Node object tells; its family is that of the default addresses of the servers. Nothing is bound to it"},
		}},
		{"Which clients are inside the cluster (externalTrafficPolicy: Local does not bind them)", []setting{
			{kubeProxy, "detectLocalMode", "detect-local-mode", atStart, optional(oneOf("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")), "`HOW` pods are told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix; default: ClusterCIDR"},
			{kubeProxy, "clusterCIDR", "cluster-cidr", atStart, cidrPair, "`CIDR` that pods have addresses of, or one of each family with a comma between; with ClusterCIDR"},
			{kubeProxy, "detectLocal.bridgeInterface", "pod-bridge-interface", atStart, nil, "`NAME` of the interface that pods are behind; with BridgeInterface"},
			{kubeProxy, "detectLocal.interfaceNamePrefix", "pod-interface-name-prefix", atStart, nil, "`PREFIX` of the names of pods' interfaces; with InterfaceNamePrefix"},
		}},
		{"Connections", connectionSettings()},
		{"Keeping the host in step", periodSettings()},
		{titleHost, []setting{
			{portald, "proxyPortRange", "proxy-port-range", atStart, portRange, "local ports for the listeners, a `RANGE` FIRST-LAST (or FIRST+MORE, or one port); taken from the lowest up, past those at which others listen; and those of TCP connections to endpoints, in turn"},
			{kubeProxy, "portRange", "", atStart, optionalPortRange, "the same as proxyPortRange, where that is left out"},
			{portald, "iptablesVariant", "iptables-variant", atStart, optional(oneOf("nft", "legacy")), "`KIND` of iptables: nft or legacy; default: what the host calls iptables, for cleanup: both"},
		}},
		{"The kernel, written at start", kernelSettings()},
		{titleLog, []setting{
			{portald, "log.format", "log-format", atStart, optional(oneOf("text", "json")), "`FORMAT`: text or json; default: as --logging-format says"},
			{portald, "log.level", "log-level", live, optional(oneOf("error", "warn", "info", "debug", "trace")), "`LEVEL`: error, warn, info, debug or trace; default: as --v says"},
			{kubeProxy, "logging.format", "logging-format", atStart, oneOf("text", "json"), "`FORMAT`, as kube-proxy calls it"},
			{kubeProxy, "logging.verbosity", "v", live, nil, "`NUMBER` that kube-proxy says how much with: 0 to 3 is info, 4 and 5 debug, 6 and more trace"},
		}},
	}
}

func sourceSettings() []setting {
	return []setting{
		{portald, "manifests", "manifests", atStart, notBlank, "`PATH` of Service, EndpointSlice and Node manifests, in place of the API server: a file, a folder, or - for standard input; repeatable. Files are followed as they change"},
		{kubeProxy, "clientConnection.kubeconfig", "kubeconfig", atStart, nil, "`FILE` that tells how to reach the API server; default: as pods are told"},
		{portald, "master", "master", atStart, nil, "`URL` of the API server, in place of the one in the kubeconfig"},
		{kubeProxy, "hostnameOverride", "hostname-override", atStart, optional(notBlank), "`NAME` of this node, as EndpointSlices give it; default: the host's name, in lower case"},
		{portald, "serviceProxyName", "service-proxy-name", atStart, labelValue, "serve only Services whose label service.kubernetes.io/service-proxy-name is this `NAME`; default: those without the label"},
		{kubeProxy, "clientConnection.contentType", "kube-api-content-type", atStart, nil, "`TYPE` of what is sent to the API server"},
		{kubeProxy, "clientConnection.acceptContentTypes", "", atStart, nil, "types that the API server may answer in; default: as contentType"},
		{kubeProxy, "clientConnection.qps", "kube-api-qps", atStart, nil, "`NUMBER` of requests a second to the API server; negative: any number"},
		{kubeProxy, "clientConnection.burst", "kube-api-burst", atStart, notNegative, "`NUMBER` of requests that may come at once"},
	}
}

func connectionSettings() []setting {
	return append(serviceSettings(), []setting{
		{kubeProxy, "udpIdleTimeout", "", live, notNegative, "the same as udpTimeout, where that is left out (kube-proxy up to 1.25)"},
		{portald, "udpMaxSessions", "udp-max-sessions", atStart, moreThanZero, "`NUMBER` of UDP sessions that one service port may have at a time; one that has its answer makes room"},
		{portald, "udpMaxSessionsTotal", "udp-max-sessions-total", atStart, notNegative, "`NUMBER` of UDP sessions that all service ports together may have at a time, each with a port of this node; one of the Service that has the most makes room; 0: half the ports of net.ipv4.ip_local_port_range"},
		{portald, "drainTimeout", "drain-timeout", live, notNegative, "`TIME` that open connections have to end by themselves after SIGTERM; a second signal cuts them at once"},
		{portald, "onExit", "on-exit", live, oneOf(onExitKernel, onExitRemove), "`WHAT` the end of the daemon leaves on the host: kernel (rules by which the kernel carries all Services until the next start, or for ever) or remove (nothing). Default: kernel, but remove with manifests in mode userspace"},
	}...)
}

func periodSettings() []setting {
	const (
		look  = "`TIME` after which the host's rules are looked at again for changes by others"
		least = "least `TIME` between two rounds of changes (kube-proxy: 1s); what comes meanwhile is applied together"
		ipvs  = "; with mode ipvs"
		nft   = "; with mode nftables"
	)
	return []setting{
		{kubeProxy, "iptables.syncPeriod", "iptables-sync-period", atStart, moreThanZero, look},
		{kubeProxy, "iptables.minSyncPeriod", "iptables-min-sync-period", atStart, notNegative, least},
		{kubeProxy, "ipvs.syncPeriod", "ipvs-sync-period", atStart, moreThanZero, look + ipvs},
		{kubeProxy, "ipvs.minSyncPeriod", "ipvs-min-sync-period", atStart, notNegative, least + ipvs},
		{kubeProxy, "nftables.syncPeriod", "", atStart, moreThanZero, look + nft},
		{kubeProxy, "nftables.minSyncPeriod", "", atStart, notNegative, least + nft},
	}
}

func kernelSettings() []setting {
	return []setting{
		{kubeProxy, "oomScoreAdj", "oom-score-adj", atStart, between(-1000, 1000), "`NUMBER` from -1000 to 1000: how early the kernel ends the daemon when memory runs out; more is earlier"},
		{kubeProxy, "conntrack.maxPerCore", "conntrack-max-per-core", atStart, notNegative, "`NUMBER` of connections the kernel may track, for each processor; 0: leave it, and conntrack.min, alone"},
		{kubeProxy, "conntrack.min", "conntrack-min", atStart, notNegative, "least `NUMBER` of connections the kernel may track, however few processors there are"},
		{kubeProxy, "conntrack.tcpEstablishedTimeout", "conntrack-tcp-timeout-established", atStart, notNegative, "`TIME` the kernel remembers a silent TCP connection; 0: leave it alone"},
		{kubeProxy, "conntrack.tcpCloseWaitTimeout", "conntrack-tcp-timeout-close-wait", atStart, notNegative, "`TIME` the kernel remembers a half-closed TCP connection; 0: leave it alone"},
		{kubeProxy, "conntrack.tcpBeLiberal", "conntrack-tcp-be-liberal", atStart, nil, "have the kernel take TCP segments outside the window for valid"},
		{kubeProxy, "conntrack.udpTimeout", "conntrack-udp-timeout", atStart, notNegative, "`TIME` the kernel remembers a UDP flow that nobody answered; 0: leave it alone"},
		{kubeProxy, "conntrack.udpStreamTimeout", "conntrack-udp-timeout-stream", atStart, notNegative, "`TIME` the kernel remembers a UDP flow that was answered; 0: leave it alone"},
	}
}

func labelValue(v any) string {
	if len(validation.IsValidLabelValue(v.(string))) > 0 {
		return "must be a label's value: at most 63 letters, digits, '-', '_' and '.'"
	}
	return ""
}
