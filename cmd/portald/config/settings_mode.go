package config

// modeSettings are about who carries Services, and how the kernel is to do it.
func modeSettings() []setting {
	const (
		bit  = "`NUMBER` from 0 to 31 of the bit in packets' marks that says what to masquerade"
		all  = "masquerade whoever dials a ClusterIP, pods too, where the kernel carries the Service"
		ipt  = "; with the writers iptables and ipvs"
		nft  = "; with the writer nftables"
		ipvs = "; with the writer ipvs"
	)
	return []setting{
		{kubeProxy, "mode", "proxy-mode", atStart, knownMode, "`MODE` of Services that do not choose one: userspace (by the daemon's listeners), or iptables, nftables or ipvs (by the kernel). Default: userspace; kube-proxy's is iptables"},
		{portald, "writer", "writer", atStart, oneOf(modeIPTables, modeNFTables, modeIPVS), "`WRITER` of the rules: iptables, nftables or ipvs; default: as the mode says, with userspace iptables"},
		{kubeProxy, "iptables.masqueradeBit", "iptables-masquerade-bit", atStart, between(0, 31), bit + ipt},
		{kubeProxy, "iptables.masqueradeAll", "masquerade-all", atStart, nil, all + ipt},
		{kubeProxy, "nftables.masqueradeBit", "", atStart, between(0, 31), bit + nft},
		{kubeProxy, "nftables.masqueradeAll", "", atStart, nil, all + nft},
		{portald, "serviceCIDRs", "service-cidrs", atStart, cidr, "`CIDRS` that the cluster gives Services addresses of: nobody answers at those that no Service has" + nft + ". Default: none"},
		{kubeProxy, "ipvs.scheduler", "ipvs-scheduler", atStart, scheduler(), "`NAME` of the scheduler: rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh" + ipvs},
		{kubeProxy, "ipvs.excludeCIDRs", "ipvs-exclude-cidrs", atStart, cidr, "`CIDRS` of virtual servers that are others', and are left alone" + ipvs},
		{kubeProxy, "ipvs.strictARP", "ipvs-strict-arp", atStart, nil, "have the host answer ARP for an address only on the interface that has it, as load balancers such as MetalLB need" + ipvs},
		{kubeProxy, "ipvs.tcpTimeout", "ipvs-tcp-timeout", atStart, notNegative, "`TIME` that IPVS remembers a silent TCP connection; 0: leave it alone" + ipvs},
		{kubeProxy, "ipvs.tcpFinTimeout", "ipvs-tcpfin-timeout", atStart, notNegative, "`TIME` that IPVS remembers a TCP connection after its FIN; 0: leave it alone" + ipvs},
		{kubeProxy, "ipvs.udpTimeout", "ipvs-udp-timeout", atStart, notNegative, "`TIME` that IPVS remembers a silent UDP flow; 0: leave it alone" + ipvs},
		{portald, "ipvs.fallback", "ipvs-fallback", atStart, optional(oneOf(modeIPTables)), "`WRITER` to take where the kernel has no IPVS: iptables" + ipvs + ". Default: none, the daemon ends and says what is missing"},
	}
}

// scheduler is the kernel's, of Linux 6.x, without those that kube-proxy does not offer (fo, ovf, twos).
func scheduler() rule {
	return oneOf("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh")
}
