package config

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// The values of mode. In the three in the middle the kernel serves Services, by the writer of that name.
const (
	modeUserspace = "userspace"
	modeIPTables  = "iptables"
	modeNFTables  = "nftables"
	modeIPVS      = "ipvs"
	modeWindows   = "kernelspace" // kube-proxy's on Windows
)

// proxyMode is the mode; portald's own if it is not set.
func (d *documents) proxyMode() string {
	if mode := string(d.kubeProxy.Mode); mode != "" {
		return mode
	}
	return modeUserspace
}

// serviceMode is the mode of Services without the annotation.
func (d *documents) serviceMode() service.Mode {
	if d.proxyMode() == modeUserspace {
		return service.ModeUserspace
	}
	return service.ModeKernel
}

// writerNetsh is the writer of Windows, which has no mode of the kernel.
const writerNetsh = "netsh"

// writerOf is the writer of a mode.
func writerOf(system, mode string) string {
	if system == windows && !needsKernel(mode) {
		return writerNetsh
	}
	return groupOf(mode)
}

// needsKernel tells whether a mode is one of the kernel of Linux.
func needsKernel(mode string) bool {
	return slices.Contains([]string{modeIPTables, modeNFTables, modeIPVS}, mode)
}

// groupOf is the group of the KubeProxyConfiguration for a mode.
func groupOf(mode string) string {
	if slices.Contains([]string{modeNFTables, modeIPVS}, mode) {
		return mode
	}
	return modeIPTables
}

// knownMode refuses unknown modes, and the modes of HNS.
func knownMode(v any) string {
	switch text(v) {
	case "", modeUserspace, modeIPTables, modeNFTables, modeIPVS:
		return ""
	case modeWindows:
		return "is served by Windows' HNS, which portald does not program; write userspace, or on Linux iptables, " +
			"nftables or ipvs"
	}
	return "must be userspace, iptables, nftables or ipvs, or be omitted"
}

// masquerade returns the masquerade settings of the writer's group of fields; IPVS uses the group iptables.
func (d *documents) masquerade() portal.Masquerade {
	bit, all := d.kubeProxy.IPTables.MasqueradeBit, d.kubeProxy.IPTables.MasqueradeAll
	if d.masquerades() == modeNFTables {
		bit, all = d.kubeProxy.NFTables.MasqueradeBit, d.kubeProxy.NFTables.MasqueradeAll
	}
	return portal.Masquerade{Mark: 1 << *bit, All: all}
}

// masquerades is the group of the KubeProxyConfiguration whose masqueradeBit and masqueradeAll are used.
func (d *documents) masquerades() string {
	if d.portald.Writer == modeNFTables {
		return modeNFTables
	}
	return modeIPTables
}

// periods is the group of the KubeProxyConfiguration whose syncPeriod and minSyncPeriod are used.
func (d *documents) periods() string {
	return groupOf(string(d.kubeProxy.Mode))
}
