package config

// remark says how portald differs from kube-proxy in something, or why it does not have it. The word may be empty, with
// a remark to what is the same.
type remark struct{ word, text string }

const parityHead = `# portald compared with kube-proxy

For operators who replace kube-proxy.

<!-- made from kube-proxy's packages and from portald: UPDATE_GOLDEN=1 go test ./cmd/portald/config -->

This page lists the flags, configuration fields, metrics, features and HTTP paths of kube-proxy 1.37, and says for each
whether portald has it. The first column is read from kube-proxy's own packages, the second from portald; a test fails
when either changes.

- same: portald has it, with the same meaning.
- differs: portald has it under the same name, and the third column says what differs.
- no effect: portald accepts and checks it, so that kube-proxy's configuration works unchanged, and does nothing else.
- not: portald does not have it.

Two kinds of metrics in kube-proxy's libraries are left out: those of the Go runtime, which depend on the Go version, and
those of API servers and controllers. Flags are those on Linux.

For differences in the handling of traffic see [limits](limits.md). For what only portald has see
[configuration](configuration.md) and [metrics](metrics.md).
`

// remarks are by kind and name. Those to fields are those to their flags too. One without a text is about the default.
func remarks() map[string]remark {
	const (
		bothFamilies = "one sync covers both IP families, and counts in each"
		pending      = "service ports with any pending change; Services and endpoints have the same number"
		audits       = "portald compares the rules with what it wrote, and writes them again if another program changed them"
		kernelAlone  = "for Services in kernel mode; in userspace mode endpoints see this node's address anyway"
		noHNS        = "portald does not program HNS; on Windows it carries connections itself"
	)
	return map[string]remark{
		"flag config": {differs,
			"a second document has portald's own settings; portald applies changes of the file while it runs, " +
				"kube-proxy exits to be restarted"},
		"flag write-config-to": {differs, "also writes the document with portald's own settings"},
		"flag cleanup": {differs,
			"removes what portald wrote, in any mode, and nothing that kube-proxy wrote"},
		"field mode": {differs,
			"also accepts userspace, which is the default; on Windows userspace replaces kernelspace"},
		"field iptables.syncPeriod":    {differs, audits},
		"field ipvs.syncPeriod":        {differs, audits},
		"field nftables.syncPeriod":    {differs, audits},
		"field iptables.minSyncPeriod": {differs, ""},
		"field ipvs.minSyncPeriod":     {differs, ""},
		"field nftables.minSyncPeriod": {differs, ""},
		"field iptables.masqueradeAll": {differs, kernelAlone},
		"field nftables.masqueradeAll": {differs, kernelAlone},
		"field iptables.localhostNodePorts": {differs,
			"a listener of portald serves them, in every mode, also on ::1, without route_localnet"},
		"field ipvs.scheduler": {differs, "the default is rr; in kube-proxy it is empty, which means rr"},
		"field portRange": {differs,
			"the local ports of portald's listeners and of its connections to endpoints; kube-proxy ignores it"},
		"field logging.format":      {differs, "the log lines and their field names are portald's own"},
		"field logging.verbosity":   {differs, "0 to 3 mean the level info, 4 and 5 debug, 6 and above trace"},
		"field windowsRunAsService": {"", "its flag is --windows-service"},

		"metric kubeproxy_sync_proxy_rules_duration_seconds":              {differs, bothFamilies},
		"metric kubeproxy_sync_full_proxy_rules_duration_seconds":         {differs, bothFamilies},
		"metric kubeproxy_sync_partial_proxy_rules_duration_seconds":      {differs, bothFamilies},
		"metric kubeproxy_sync_proxy_rules_last_timestamp_seconds":        {differs, bothFamilies},
		"metric kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds": {differs, bothFamilies},
		"metric kubeproxy_network_programming_duration_seconds":           {differs, bothFamilies},
		"metric kubeproxy_sync_proxy_rules_service_changes_pending":       {differs, pending},
		"metric kubeproxy_sync_proxy_rules_endpoint_changes_pending":      {differs, pending},
		"metric kubeproxy_conntrack_reconciler_sync_duration_seconds": {differs,
			"also covers entries of flows that began before the rules existed and were not answered; one search covers " +
				"both IP families, and counts in each"},
		"metric kubeproxy_conntrack_reconciler_deleted_entries_total": {differs,
			"also counts entries of flows that began before the rules existed and were not answered"},
		"metric kubeproxy_iptables_ct_state_invalid_dropped_packets_total": {differs,
			"read from the counter of the rule, not from nfacct, at most once in 10 s; packets between the last " +
				"reading and a rewrite of the rule are not counted. Only with the writer iptables, once the kernel carries a " +
				"Service"},
		"metric kubeproxy_iptables_localhost_nodeports_accepted_packets_total": {differs,
			"counts connections and UDP sessions, not packets, when they end; in every mode, also on ::1"},
		"metric kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total": {differs,
			"such a failure is also a failed sync, after which portald rewrites everything"},
		"metric kubeproxy_nftables_localhost_nodeport_listeners": {differs,
			"in every mode, also of UDP, and 0 where kube-proxy has no series"},
		"metric kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total": {differs,
			"in every mode, also of UDP; one attempt each 5 s"},
		"metric kubeproxy_nftables_localhost_nodeport_rejected_packets_total": {not,
			"kube-proxy rejects UDP and SCTP at loopback addresses, and TCP where it does not listen; portald serves UDP too"},
		"metric kubeproxy_sync_proxy_rules_winkernel_lb_create_failures_total": {not, noHNS},
		"metric kubeproxy_sync_proxy_rules_winkernel_lb_delete_failures_total": {not, noHNS},
		"metric kubeproxy_sync_proxy_rules_winkernel_lb_update_failures_total": {not, noHNS},
		"metric kubernetes_build_info": {differs,
			"the release of the Kubernetes libraries, followed by +portald"},
		"metric kubernetes_feature_enabled": {differs, "only the features below"},

		"feature AllowServiceExternalIPs": {differs,
			"1 if `externalIPCIDRs` is set, which lists the CIDRs that Services may claim"},
		"feature KubeProxyIPVS": {"", "`mode: ipvs` stays in portald: [modes](modes.md#what-kube-proxy-plans)"},
		"feature KubeProxyNFTablesLocalhostNodePorts": {differs,
			"1 if NodePorts are served at loopback addresses, which is so in every mode: `nodePortAddresses` with " +
				"`localhost` or `all`, or without any, and `iptables.localhostNodePorts`"},
		"feature NFTablesNetlink": {"", "the writer nftables has no other way. In kube-proxy it made a change of endpoints " +
			"with 10,000 Services take 1.3 s instead of 4.6 s ([figures of both](scale.md))"},
		"feature MultiCIDRServiceAllocator": {differs,
			"1 if portald uses ServiceCIDR objects: with the writer nftables, and without `serviceCIDRs` and " +
				"`serviceProxyName`"},
		"feature WinDSR":     {differs, "0: " + noHNS},
		"feature WinOverlay": {differs, "0: " + noHNS},

		"path healthzBindAddress /healthz": {differs,
			"the same JSON; [more reasons for 503](../deploy/README.md#watching-it)"},
		"path healthzBindAddress /livez": {differs,
			"the same JSON; [more reasons for 503](../deploy/README.md#watching-it)"},
		"path metricsBindAddress /healthz": {differs, "no `?verbose`, and no path per check"},
		"path metricsBindAddress /configz": {differs,
			"both documents, each under its API group; secrets are `REDACTED`"},
		"path metricsBindAddress /debug/flags/v": {differs, "sets the log level, as --v does"},
		"path metricsBindAddress /flagz": {differs,
			"the text has another form; objects of config.k8s.io (v1beta1, v1alpha1) are JSON, which is valid YAML; " +
				"secrets are `REDACTED`"},
		"path metricsBindAddress /statusz": {differs,
			"as /flagz; the binary version is portald's, the emulation version is that of the Kubernetes libraries"},
	}
}
