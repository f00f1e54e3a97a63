package config

// unusedSettings returns the settings of kube-proxy that have no effect in portald: they are accepted, so that its
// configuration can be used unchanged, and checked as far as kube-proxy checks them.
func unusedSettings() []setting {
	const (
		noGates   = "portald has no feature gates"
		noBuffer  = "lines are not buffered"
		oneStream = "all lines are written to one file"
		noHNS     = "for HNS, which portald does not program"
	)
	return []setting{
		{kubeProxy, "featureGates", "feature-gates", ignored, nil, noGates},
		{kubeProxy, "logging.flushFrequency", "log-flush-frequency", ignored, nil, noBuffer},
		{kubeProxy, "logging.vmodule", "vmodule", ignored, nil, "the log has one level for all files"},
		{kubeProxy, "logging.options.text.splitStream", "log-text-split-stream", ignored, nil, oneStream},
		{kubeProxy, "logging.options.text.infoBufferSize", "log-text-info-buffer-size", ignored, nil, noBuffer},
		{kubeProxy, "logging.options.json.splitStream", "log-json-split-stream", ignored, nil, oneStream},
		{kubeProxy, "logging.options.json.infoBufferSize", "log-json-info-buffer-size", ignored, nil, noBuffer},
		{kubeProxy, "showHiddenMetricsForVersion", "show-hidden-metrics-for-version", ignored,
			optional(previousKubernetes), "no metric is hidden, by portald nor by kube-proxy of that release"},
		{kubeProxy, "configSyncPeriod", "config-sync-period", ignored, aboveZero,
			"objects are watched, and listed again after errors"},
		{kubeProxy, "iptables.snatNodeInternalIP", "", ignored, nil,
			"masqueraded packets have the address of the interface on which they are sent"},
		{kubeProxy, "winkernel.networkName", "network-name", ignored, nil, noHNS},
		{kubeProxy, "winkernel.sourceVip", "source-vip", ignored, nil,
			noHNS + "; endpoints see the node's address (clientAddress)"},
		{kubeProxy, "winkernel.enableDSR", "enable-dsr", ignored, nil, noHNS + "; replies return through portald"},
		{kubeProxy, "winkernel.rootHnsEndpointName", "root-hnsendpoint-name", ignored, nil, noHNS},
		{kubeProxy, "winkernel.forwardHealthCheckVip", "forward-healthcheck-vip", ignored, nil,
			noHNS + "; health checks have a port of their own"},
	}
}
