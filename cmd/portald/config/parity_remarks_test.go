package config

// remark says how portald differs from kube-proxy in something, or why it does not have it. The word may be empty, with
// a remark to what is the same.
type remark struct{ word, text string }

const parityHead = `# portald beside kube-proxy

<!-- made from kube-proxy's packages and from portald: UPDATE_GOLDEN=1 go test ./cmd/portald/config -->

Everything that kube-proxy 1.36 shows to those who operate it, and what portald has in its place. The left column comes
from kube-proxy's own packages, the word beside it from portald itself; a test fails when either changes.

- same: it means what it means in kube-proxy.
- differs: it is there, under the same name, and the remark says what is otherwise.
- no effect: it is accepted and checked, so that kube-proxy's configuration can be used unchanged.
- not: portald does not have it.

Left out are the metrics of Go's runtime, which depend on its version, and those of API servers and controllers,
which are in kube-proxy's libraries. Flags are those on Linux.

How traffic is treated otherwise is in [limits](limits.md); what only portald has in [configuration](configuration.md)
and [metrics](metrics.md).
`

// remarks are by kind and name. Those to fields are those to their flags too. One without a text is about the default.
func remarks() map[string]remark {
	const (
		bothFamilies = "one sync is of both families, and counts in each"
		pending      = "service ports of which anything has changed and waits; the same number for Services and endpoints"
		audits       = "rules are compared with what was written, and written again if others have changed them"
		kernelAlone  = "for Services that the kernel carries; endpoints of others see this node's address anyway"
		library      = "of cAdvisor, which kube-proxy links"
		noHNS        = "HNS is not programmed; on Windows portald carries connections itself"
	)
	return map[string]remark{
		"flag config": {differs,
			"a second document has portald's own settings; changes are followed, where kube-proxy ends to be started " +
				"again"},
		"flag write-config-to": {differs, "writes portald's own document too"},
		"flag cleanup": {differs,
			"removes what portald wrote, in whatever mode, and nothing of kube-proxy's"},
		"flag boot_id_file":    {not, library},
		"flag machine_id_file": {not, library},
		"field mode": {differs,
			"userspace is possible, and the default; on Windows it takes the place of kernelspace"},
		"field iptables.syncPeriod":    {differs, audits},
		"field ipvs.syncPeriod":        {differs, audits},
		"field nftables.syncPeriod":    {differs, audits},
		"field iptables.minSyncPeriod": {differs, ""},
		"field ipvs.minSyncPeriod":     {differs, ""},
		"field nftables.minSyncPeriod": {differs, ""},
		"field iptables.masqueradeAll": {differs, kernelAlone},
		"field nftables.masqueradeAll": {differs, kernelAlone},
		"field iptables.localhostNodePorts": {differs,
			"a listener of portald's serves them, in every mode and at ::1 too, without route_localnet"},
		"field ipvs.scheduler": {differs, "the default is written rr; kube-proxy's is empty, which is rr"},
		"field portRange": {differs,
			"the local ports of listeners and of connections to endpoints; kube-proxy ignores it"},
		"field logging.format":      {differs, "lines and names of fields are portald's"},
		"field logging.verbosity":   {differs, "0 to 3 is level info, 4 and 5 debug, more trace"},
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
			"those that nobody answered before there were rules too; one search is of both families, and counts in each"},
		"metric kubeproxy_conntrack_reconciler_deleted_entries_total": {differs,
			"those that nobody answered before there were rules too"},
		"metric kubeproxy_iptables_ct_state_invalid_dropped_packets_total": {differs,
			"read from the rule's own counter, not by nfacct, and at most each 10 s; what it met between that and " +
				"being written anew is not counted. It is there with the writer iptables, once the kernel carries a " +
				"Service"},
		"metric kubeproxy_iptables_localhost_nodeports_accepted_packets_total": {differs,
			"connections and UDP sessions, in every mode and at ::1 too; each counts when it has ended"},
		"metric kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total": {differs,
			"it is a failed sync too, after which everything is written anew"},
		"metric kubernetes_build_info": {differs,
			"the release of Kubernetes' libraries, with +portald behind it"},
		"metric kubernetes_feature_enabled": {differs, "the features below alone"},

		"feature AllowServiceExternalIPs": {differs, "1 with `externalIPCIDRs`, which say who may claim which"},
		"feature MultiCIDRServiceAllocator": {differs,
			"1 if ServiceCIDRs count: with the writer nftables, without `serviceCIDRs` and `serviceProxyName`"},
		"feature WinDSR":     {differs, "0: " + noHNS},
		"feature WinOverlay": {differs, "0: " + noHNS},

		"path healthzBindAddress /healthz": {differs,
			"the same JSON; [more reasons for 503](../deploy/README.md#watching-it)"},
		"path healthzBindAddress /livez": {differs,
			"the same JSON; [more reasons for 503](../deploy/README.md#watching-it)"},
		"path metricsBindAddress /healthz": {differs, "no `?verbose`, and no path for each check"},
		"path metricsBindAddress /configz": {differs,
			"both documents, by their API groups; secrets are `REDACTED`"},
		"path metricsBindAddress /debug/flags/v": {differs, "sets the level of the log as --v does"},
		"path metricsBindAddress /flagz": {differs,
			"the text has another form; objects of config.k8s.io as JSON, which is YAML too, v1beta1 and v1alpha1; " +
				"secrets are `REDACTED`"},
		"path metricsBindAddress /statusz": {differs,
			"as /flagz; the binary's version is portald's, the emulated one that of Kubernetes' libraries"},
	}
}
