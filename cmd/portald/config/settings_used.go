package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portald/portald/portal/service"
)

// usedTopics are the settings that have an effect. Flags that kube-proxy has too have its names.
func usedTopics() []topic {
	return []topic{
		{"Where Services come from", sourceSettings()},
		{"How Services are carried", modeSettings()},
		{"Connection records", append(connectionLogSettings(), setting{
			portald, "clientPods", "client-pods", atStart, nil,
			"watch all pods of the cluster, so that records and lists name the client's pod and its node; this takes " +
				"memory, and the right to list and watch pods",
		})},
		{"Health, metrics and administration", []setting{
			{kubeProxy, "healthzBindAddress", "healthz-bind-address", atStart, serverAddress,
				"`ADDRESS` of the health server (/healthz, /livez); port 0, or an empty flag: none"},
			{kubeProxy, "metricsBindAddress", "metrics-bind-address", atStart, serverAddress,
				"`ADDRESS` of the metrics server (/metrics, /proxyMode); port 0, or an empty flag: none"},
			{portald, "adminSocket", "admin-socket", atStart, optional(adminPath),
				"Unix socket (`PATH`; on Windows a named pipe) for the commands that inspect the daemon, cut, drain and " +
					"set its log level; only root can open it. Empty: none"},
			{portald, "handOverSocket", "hand-over-socket", atStart, optional(adminPath),
				"Unix socket (`PATH`) through which the next portald on this node takes over listeners and open connections; " +
					"only root can open it. Default: next to the admin socket, such as " +
					"/run/portald/admin-handover.sock. Empty: none"},
			{portald, "keepSocket", "keep-socket", atStart, optional(adminPath),
				"Unix socket (`PATH`) of portald keep, which holds listeners and open connections in case the daemon " +
					"crashes; if no keeper runs when the daemon starts, it runs without. Default: next to the admin socket, such as " +
					"/run/portald/admin-keep.sock. Empty: none"},
			{kubeProxy, "bindAddressHardFail", "bind-address-hard-fail", atStart, nil,
				"exit if one of these addresses cannot be bound, instead of retrying"},
			{portald, "readOnlyAPI", "read-only-api", atStart, nil,
				"serve /v1/connections, /v1/records, /v1/services and /v1/endpoints on the metrics server, to every user and " +
					"every host-network pod of this node; default: only on the admin socket, for root"},
			{portald, "ui", "ui", atStart, nil,
				"serve the page of portald ui for this node at /ui/ of the metrics server, to the same; needs --read-only-api"},
			{kubeProxy, "enableProfiling", "profiling", atStart, nil, "serve /debug/pprof on the metrics server"},
		}},
		{"Frontends", []setting{
			{kubeProxy, "nodePortAddresses", "nodeport-addresses", atStart, nodePortAddress,
				"`CIDRS` of the node addresses on which NodePorts and health check ports are served, or primary, localhost " +
					"or all; primary: the addresses in the Node object, or the host's own if manifests have no Node. Default: all, " +
					"in mode nftables primary"},
			{kubeProxy, "iptables.localhostNodePorts", "iptables-localhost-nodeports", atStart, nil,
				"serve NodePorts on 127.0.0.1 and ::1 too, if the addresses for NodePorts include them"},
			{portald, "externalIPCIDRs", "external-ip-cidrs", atStart, cidr,
				"`CIDRS` from which spec.externalIPs may claim addresses; default: none, external IPs are " +
					"disabled"},
			{portald, "nodeIPs", "node-ip", atStart, hostAddress,
				"`ADDRESS` of this node, one per family: connections are redirected to it, instead of to the " +
					"address of the interface on which they arrive. For CNIs whose pod interfaces have no address on " +
					"the node's side"},
			{kubeProxy, "bindAddress", "bind-address", atStart, nodeAddress,
				"`ADDRESS` of this node, instead of the one in the Node object; the default addresses of the " +
					"servers have its family. No socket is bound to it"},
		}},
		{"Which clients are local to the cluster (externalTrafficPolicy: Local does not restrict them)", []setting{
			{kubeProxy, "detectLocalMode", "detect-local-mode", atStart,
				optional(oneOf("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")),
				"`MODE` of detecting pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix; " +
					"default: ClusterCIDR"},
			{kubeProxy, "clusterCIDR", "cluster-cidr", atStart, cidrPair,
				"`CIDR` of pod addresses, or one per family, comma-separated; for ClusterCIDR"},
			{kubeProxy, "detectLocal.bridgeInterface", "pod-bridge-interface", atStart, nil,
				"`NAME` of the bridge of pods; for BridgeInterface"},
			{kubeProxy, "detectLocal.interfaceNamePrefix", "pod-interface-name-prefix", atStart, nil,
				"`PREFIX` of the names of pod interfaces; for InterfaceNamePrefix"},
		}},
		{"Connections", connectionSettings()},
		{"Synchronization with the host", periodSettings()},
		{titleHost, []setting{
			{portald, "proxyPortRange", "proxy-port-range", atStart, portRange,
				"`RANGE` of local ports, FIRST-LAST, FIRST+MORE or one port: for listeners, from the lowest free " +
					"one up, and as source ports of TCP connections to endpoints, in rotation"},
			{kubeProxy, "portRange", "", atStart, optionalPortRange, "the same as proxyPortRange, if that is not set"},
			{portald, "iptablesVariant", "iptables-variant", atStart, optional(oneOf("nft", "legacy")),
				"`VARIANT` of iptables: nft or legacy; default: the one that kubelet uses on this host, otherwise " +
					"see docs/install.md; cleanup cleans both"},
		}},
		{"The kernel, written at start", kernelSettings()},
		{"The process", []setting{
			{kubeProxy, asService, "windows-service", atStart, nil,
				"run as a Windows service, started by the service control manager; portald service install sets it"},
			{portald, "log.path", "log-file", atStart, nil,
				"`FILE`, - for standard error; it is renamed to FILE.1 when it has 100 MiB. Default: -; as a Windows " +
					"service %ProgramData%\\portald\\portald.log"},
		}},
		{titleLog, []setting{
			{portald, "log.format", "log-format", atStart, optional(oneOf("text", "json")),
				"`FORMAT`: text or json; default: --logging-format"},
			{portald, "log.level", "log-level", live, optional(oneOf("error", "warn", "info", "debug", "trace")),
				"`LEVEL`: error, warn, info, debug or trace; default: as --v says"},
			{kubeProxy, "logging.format", "logging-format", atStart, oneOf("text", "json"),
				"`FORMAT`: text or json, kube-proxy's name for it"},
			{kubeProxy, "logging.verbosity", "v", live, nil,
				"`NUMBER` of kube-proxy's verbosity: 0 to 3 mean the level info, 4 and 5 debug, 6 and above trace"},
		}},
	}
}

func sourceSettings() []setting {
	return []setting{
		{portald, "manifests", "manifests", atStart, notBlank,
			"`PATH` of Service, EndpointSlice, Node and ServiceCIDR manifests to use instead of the API server: a file, a " +
				"directory, or - for standard input; repeatable. portald follows changes of the files"},
		{kubeProxy, "clientConnection.kubeconfig", "kubeconfig", atStart, nil,
			"`FILE` with the address and credentials of the API server; default: the pod's service account"},
		{portald, "master", "master", atStart, nil, "`URL` of the API server, instead of the one in the kubeconfig"},
		{kubeProxy, "hostnameOverride", "hostname-override", atStart, optional(notBlank),
			"`NAME` of this node in EndpointSlices; default: the host name, in lower case"},
		{portald, "serviceProxyName", "service-proxy-name", atStart, labelValue,
			"serve only Services whose label service.kubernetes.io/service-proxy-name is this `NAME`; default: " +
				"only Services without the label"},
		{portald, "refusedAnnotations", "refused-annotations", atStart, annotation(),
			"`NAMES` of annotations that Services may not set, without portald.io/, or all; if a Service does, " +
				"portald creates an event and uses the daemon's value. Default: none"},
		{kubeProxy, "clientConnection.contentType", "kube-api-content-type", atStart, nil,
			"content `TYPE` of requests to the API server"},
		{kubeProxy, "clientConnection.acceptContentTypes", "", atStart, nil,
			"content types of the API server's responses; default: contentType"},
		{kubeProxy, "clientConnection.qps", "kube-api-qps", atStart, nil,
			"`NUMBER` of requests per second to the API server; negative: no limit"},
		{kubeProxy, "clientConnection.burst", "kube-api-burst", atStart, notNegative, "`NUMBER` of requests in a burst"},
	}
}

func connectionSettings() []setting {
	return append(serviceSettings(), []setting{
		{kubeProxy, "udpIdleTimeout", "", live, notNegative,
			"the same as udpTimeout, if that is not set (kube-proxy up to 1.25)"},
		{portald, "udpMaxSessions", "udp-max-sessions", atStart, aboveZero,
			"`NUMBER` of concurrent UDP sessions of one service port; at the limit a session that was answered " +
				"is evicted"},
		{portald, "udpMaxSessionsTotal", "udp-max-sessions-total", atStart, notNegative,
			"`NUMBER` of concurrent UDP sessions of all service ports together, each with a port of this node; " +
				"at the limit a session of the Service with the most is evicted; 0: half the ports of " +
				"net.ipv4.ip_local_port_range"},
		{portald, "engine", "engine", atStart, oneOf(EngineAuto, EngineEpoll, EngineGoroutine),
			"`ENGINE` that moves the bytes of connections: epoll (event loops, Linux only), goroutine (on any system), or " +
				"auto: epoll where there is one"},
		{portald, "drainTimeout", "drain-timeout", live, notNegative,
			"`TIME` after SIGTERM in which open connections may end by themselves; a second signal closes them at " +
				"once"},
		{portald, "onExit", "on-exit", live, oneOf(onExitKernel, onExitRemove, onExitCtrlC),
			"`WHAT` the daemon leaves on the host when it exits: kernel (rules with which the kernel serves all " +
				"Services until the next start), remove (nothing), or remove-on-interrupt (nothing after " +
				"Ctrl-C, otherwise as kernel). Default: kernel; with manifests in mode userspace " +
				"remove-on-interrupt, and on Windows remove"},
	}...)
}

func periodSettings() []setting {
	const (
		auditPeriod = "`TIME` between checks of the host's rules for changes by other programs"
		write       = "minimum `TIME` between two writes of rules (kube-proxy: "
		least       = write + "1s); changes in between are applied together"
		ipvs        = "; in mode ipvs"
		nft         = "; in mode nftables"
	)
	return []setting{
		{kubeProxy, "iptables.syncPeriod", "iptables-sync-period", atStart, aboveZero, auditPeriod},
		{kubeProxy, "iptables.minSyncPeriod", "iptables-min-sync-period", atStart, notNegative, least},
		{kubeProxy, "ipvs.syncPeriod", "ipvs-sync-period", atStart, aboveZero, auditPeriod + ipvs},
		{kubeProxy, "ipvs.minSyncPeriod", "ipvs-min-sync-period", atStart, notNegative,
			write + "1s, with a file none); changes in between are applied together" + ipvs},
		{kubeProxy, "nftables.syncPeriod", "", atStart, aboveZero, auditPeriod + nft},
		{kubeProxy, "nftables.minSyncPeriod", "", atStart, notNegative, least + nft},
	}
}

func kernelSettings() []setting {
	return []setting{
		{kubeProxy, "oomScoreAdj", "oom-score-adj", atStart, between(-1000, 1000),
			"`NUMBER` from -1000 to 1000: the daemon's oom_score_adj; with a higher one the kernel kills it " +
				"earlier when memory runs out"},
		{kubeProxy, "conntrack.maxPerCore", "conntrack-max-per-core", atStart, notNegative,
			"`NUMBER` of connections that the kernel may track, for each CPU; 0: not changed, nor by " +
				"conntrack.min"},
		{kubeProxy, "conntrack.min", "conntrack-min", atStart, notNegative,
			"minimum `NUMBER` of connections that the kernel may track, whatever the number of CPUs"},
		{kubeProxy, "conntrack.tcpEstablishedTimeout", "conntrack-tcp-timeout-established", atStart, notNegative,
			"`TIME` after which the kernel forgets an idle TCP connection; 0: not changed"},
		{kubeProxy, "conntrack.tcpCloseWaitTimeout", "conntrack-tcp-timeout-close-wait", atStart, notNegative,
			"`TIME` after which the kernel forgets a TCP connection in CLOSE_WAIT; 0: not changed"},
		{kubeProxy, "conntrack.tcpBeLiberal", "conntrack-tcp-be-liberal", atStart, nil,
			"let the kernel track TCP segments outside of the window as valid"},
		{kubeProxy, "conntrack.udpTimeout", "conntrack-udp-timeout", atStart, notNegative,
			"`TIME` after which the kernel forgets an unanswered UDP flow; 0: not changed"},
		{kubeProxy, "conntrack.udpStreamTimeout", "conntrack-udp-timeout-stream", atStart, notNegative,
			"`TIME` after which the kernel forgets an answered UDP flow; 0: not changed"},
	}
}

func labelValue(v any) string {
	if len(validation.IsValidLabelValue(v.(string))) > 0 {
		return "must be a label value: at most 63 letters, digits, '-', '_' and '.'"
	}
	return ""
}

// annotation is the name of one that a Service may have.
func annotation() rule {
	names := []string{service.AllSettings}
	for _, s := range service.Settings() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return oneOf(names...)
}
