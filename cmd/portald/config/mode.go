package config

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// The values of mode. The three in the middle have the kernel carry Services, by the writer of that name.
const (
	modeUserspace = "userspace"
	modeIPTables  = "iptables"
	modeNFTables  = "nftables"
	modeIPVS      = "ipvs"
	modeWindows   = "kernelspace" // kube-proxy's on Windows
)

// proxyMode is the mode in which Services are carried: portald's own where none is said.
func (d *documents) proxyMode() string {
	if mode := string(d.kubeProxy.Mode); mode != "" {
		return mode
	}
	return modeUserspace
}

// serviceMode is how Services are carried that do not say it.
func (d *documents) serviceMode() service.Mode {
	if d.proxyMode() == modeUserspace {
		return service.ModeUserspace
	}
	return service.ModeKernel
}

// writerOf is the writer of a mode.
func writerOf(mode string) string {
	if slices.Contains([]string{modeNFTables, modeIPVS}, mode) {
		return mode
	}
	return modeIPTables
}

// knownMode refuses what this system cannot do.
func knownMode(v any) string { return adviceOnMode(runtime.GOOS, text(v)) }

func adviceOnMode(system, mode string) string {
	kernel := slices.Contains([]string{modeIPTables, modeNFTables, modeIPVS}, mode)
	switch {
	case mode == "" || mode == modeUserspace || kernel && system == "linux":
		return ""
	case system != "linux" && (kernel || mode == modeWindows):
		return "cannot be done on " + system + " yet; write userspace"
	case mode == modeWindows:
		return "is for Windows; write iptables, nftables or ipvs to have the kernel carry Services, or userspace"
	}
	return "must be userspace, iptables, nftables or ipvs, or be left out"
}

// checkWriter: a kernel mode is done by the writer of its name; userspace goes with any.
func (d *draft) checkWriter() {
	mode, writer := d.proxyMode(), d.portald.Writer
	if mode == modeUserspace || writer == writerOf(mode) || knownMode(mode) != "" || settingOf("writer").must(writer) != "" {
		return
	}
	d.contradict("writer", "mode", "%[1]s %[3]s: does not go with %[2]s, which is %[4]s; leave the writer out, "+
		"or write mode %[3]s for that in the kernel, or mode userspace, which goes with any", writer, mode)
}

// masquerade is what the group of the writer says; that of IPVS is the group iptables.
func (d *documents) masquerade() portal.Masquerade {
	bit, all := d.kubeProxy.IPTables.MasqueradeBit, d.kubeProxy.IPTables.MasqueradeAll
	if d.masquerades() == modeNFTables {
		bit, all = d.kubeProxy.NFTables.MasqueradeBit, d.kubeProxy.NFTables.MasqueradeAll
	}
	return portal.Masquerade{Mark: 1 << *bit, All: all}
}

// masquerades is the group of the KubeProxyConfiguration whose masqueradeBit and masqueradeAll count.
func (d *documents) masquerades() string {
	if d.portald.Writer == modeNFTables {
		return modeNFTables
	}
	return modeIPTables
}

// checkMasquerade: replies to the addresses of clients have a mark too (clientAddress), and so has what portald itself sends.
func (d *draft) checkMasquerade() {
	s := settingOf(d.masquerades() + ".masqueradeBit")
	bit := d.at(s)
	if s.must(bit.Elem().Interface()) != "" {
		return
	}
	why := ""
	switch mark := d.masquerade().Mark; {
	case mark&platform.DefaultDivert().Mark != 0:
		why = "replies to clients' own addresses with (clientAddress transparent)"
	case mark&portal.DefaultDials != 0:
		why = "what it sends to endpoints with"
	default:
		return
	}
	d.fail(s, shown(bit.Interface()), fmt.Sprintf("is the bit that portald marks %s; choose another, such as %d", why, defaultMasqueradeBit))
}
