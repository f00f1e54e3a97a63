package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/portald/portald/portal/service"
)

// asService is the path of kube-proxy's setting of a service of Windows.
const asService = "windowsRunAsService"

// windows is the system that has neither a mode of the kernel nor one of the writers of rules.
const windows = "windows"

// isService tells whether the daemon is a service of Windows.
func (d *documents) isService() bool { return d.system == windows && d.kubeProxy.WindowsRunAsService }

// checkSystem refuses what the system of the daemon cannot do. What is only rendered may be for any system.
func (d *draft) checkSystem() {
	if d.anySystem {
		return
	}
	if mode := settingOf("mode"); needsKernel(d.proxyMode()) && d.system != "linux" {
		d.fail(mode, d.proxyMode(), "needs the kernel of Linux; write userspace, which serves the same Services on "+d.system)
		return
	}
	for path, advice := range map[string]string{
		"writer":          adviceOnWriter(d.system, d.portald.Writer),
		"onExit":          adviceOnExit(d.system, d.portald.OnExit),
		"detectLocalMode": adviceOnDetectLocal(d.system, d.kubeProxy.DetectLocalMode),
		"clientAddress":   adviceOnClientAddress(d.system, d.portald.serviceField("clientAddress").String()),
	} {
		if advice != "" {
			s := settingOf(path)
			d.fail(s, shown(d.at(s).Interface()), advice)
		}
	}
}

func adviceOnWriter(system, writer string) string {
	switch {
	case needsKernel(writer) && system == windows:
		return "is for Linux; omit it, or write netsh"
	case writer == writerNetsh && system != windows:
		return "is for Windows; write iptables, nftables or ipvs, or print with portald render what it would do"
	}
	return ""
}

func adviceOnExit(system, what string) string {
	if system == windows && what != onExitRemove {
		return "needs a mode of the kernel, which portald does not have on Windows; write remove"
	}
	return ""
}

// adviceOnDetectLocal: the engine of Windows does not see the interface that a connection came in by.
func adviceOnDetectLocal[T ~string](system string, mode T) string {
	byInterface := mode == T(ByBridgeInterface) || mode == T(ByInterfacePrefix)
	if byInterface && system == windows {
		return "is for Linux; write ClusterCIDR or NodeCIDR"
	}
	return ""
}

func adviceOnClientAddress(system, how string) string {
	if system == windows && how == service.AddressTransparent.String() {
		return "needs Linux, which leads replies back to portald; write node or proxy-v2"
	}
	return ""
}

// noEffectOn is why a setting has no effect on a system whatever else is set, empty if it may have one.
func noEffectOn(system string, s setting) string {
	kernel := s.path == "oomScoreAdj" || s.path == "kernelRecords" || strings.HasPrefix(s.path, "conntrack.")
	switch {
	case kernel && system == windows:
		return "it is a setting of Linux"
	case s.path == asService && system != windows:
		return "it is for Windows"
	}
	return ""
}

// noEffectBeside is why a setting has no effect beside a writer, empty if it may have one.
func noEffectBeside(writer string, s setting) string {
	listens := writer == writerNetsh
	switch _, name, _ := strings.Cut(s.path, "."); {
	case listens && strings.HasPrefix(name, "masquerade"):
		return "the writer netsh masquerades nothing: endpoints see this node's address"
	case listens && slices.Contains([]string{"proxyPortRange", "portRange"}, s.path):
		return "with the writer netsh listeners have the ports of the frontends"
	case listens && s.path == "nodeIPs":
		return "with the writer netsh listeners have the addresses of the frontends"
	case s.path == "iptablesVariant" && slices.Contains([]string{modeNFTables, writerNetsh}, writer):
		return fmt.Sprintf("the writer %s does not use iptables", writer)
	}
	return ""
}
