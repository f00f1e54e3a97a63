package config

import "github.com/portald/portald/portal/netsh"

// modeSettings select the mode and the writer of rules, and configure the kernel's part.
func modeSettings() []setting {
	const (
		bit  = "`NUMBER` from 0 to 31 of the bit of the packet mark that requests masquerading"
		all  = "masquerade all connections to ClusterIPs, also from pods, for Services in kernel mode"
		ipt  = "; for the writers iptables and ipvs"
		nft  = "; for the writer nftables"
		ipvs = "; for the writer ipvs"
	)
	return []setting{
		{kubeProxy, "mode", "proxy-mode", atStart, knownMode,
			"`MODE` of Services that do not choose one: userspace (served by the daemon's listeners), or " +
				"iptables, nftables or ipvs (served by the kernel). Default: userspace; kube-proxy's is iptables"},
		{portald, "writer", "writer", atStart, oneOf(modeIPTables, modeNFTables, modeIPVS, writerNetsh),
			"`WRITER` of the rules: iptables, nftables or ipvs, on Windows netsh; default: the same as the mode, in " +
				"userspace mode iptables or netsh"},
		{portald, "interfaceName", "interface-name", atStart, optional(notBlank),
			"`NAME` of the interface that gets the addresses of Services; for the writer netsh. Default: the " +
				"environment variable " + interfaceVariable + ", or " + netsh.DefaultInterface},
		{portald, "overlayNetwork", "overlay-network", atStart, oneOf(overlayRefuse, overlayServe),
			"`WHAT` to do on a node whose pods are in an overlay network, where it reaches only its own pods: refuse " +
				"(the daemon exits with an error), or serve (endpoints on other nodes time out); for the writer netsh"},
		{kubeProxy, "iptables.masqueradeBit", "iptables-masquerade-bit", atStart, between(0, 31), bit + ipt},
		{kubeProxy, "iptables.masqueradeAll", "masquerade-all", atStart, nil, all + ipt},
		{kubeProxy, "nftables.masqueradeBit", "", atStart, between(0, 31), bit + nft},
		{kubeProxy, "nftables.masqueradeAll", "", atStart, nil, all + nft},
		{portald, "serviceCIDRs", "service-cidrs", atStart, cidr,
			"`CIDRS` of the cluster's Service addresses: connections to an address in them that no Service has are dropped" +
				nft + ". Default: the CIDRs of the cluster's ServiceCIDR objects, with serviceProxyName none"},
		{kubeProxy, "ipvs.scheduler", "ipvs-scheduler", atStart, scheduler(),
			"`NAME` of the scheduler: rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh" + ipvs},
		{kubeProxy, "ipvs.excludeCIDRs", "ipvs-exclude-cidrs", atStart, cidr,
			"`CIDRS` of virtual servers of other programs, which are not changed" + ipvs},
		{kubeProxy, "ipvs.strictARP", "ipvs-strict-arp", atStart, nil,
			"let the host answer ARP for an address only on the interface that has it, as load balancers such as " +
				"MetalLB require" + ipvs},
		{kubeProxy, "ipvs.tcpTimeout", "ipvs-tcp-timeout", atStart, notNegative,
			"`TIME` after which IPVS forgets an idle TCP connection; 0: not changed" + ipvs},
		{kubeProxy, "ipvs.tcpFinTimeout", "ipvs-tcpfin-timeout", atStart, notNegative,
			"`TIME` after which IPVS forgets a TCP connection after its FIN; 0: not changed" + ipvs},
		{kubeProxy, "ipvs.udpTimeout", "ipvs-udp-timeout", atStart, notNegative,
			"`TIME` after which IPVS forgets an idle UDP flow; 0: not changed" + ipvs},
		{portald, "ipvs.fallback", "ipvs-fallback", atStart, optional(oneOf(modeIPTables)),
			"`WRITER` to use if the kernel has no IPVS: iptables" + ipvs + ". Default: none, the daemon exits with an error"},
	}
}

// scheduler is the kernel's, of Linux 6.x, without those that kube-proxy does not offer (fo, ovf, twos).
func scheduler() rule {
	return oneOf("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh")
}
