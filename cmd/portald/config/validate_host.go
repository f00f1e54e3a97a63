package config

import (
	"fmt"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// checkWriter: a mode of the kernel needs the writer of its name; userspace works with any.
func (d *draft) checkWriter() {
	mode, writer := d.proxyMode(), d.portald.Writer
	if mode == modeUserspace || writer == groupOf(mode) || knownMode(mode) != "" ||
		settingOf("writer").must(writer) != "" {
		return
	}
	advice := "omit the writer, or write mode %[3]s for that in the kernel, or mode userspace, which works with any"
	if writer == writerNetsh {
		advice = "omit the writer, or write mode userspace, the only one of this writer"
	}
	d.contradict("writer", "mode", "%[1]s %[3]s: contradicts %[2]s, which is %[4]s; "+advice, writer, mode)
}

// checkMasquerade: portald marks replies to addresses of clients (clientAddress), and what it sends itself, with other
// bits.
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
	d.fail(s, shown(bit.Interface()), fmt.Sprintf("is the bit that portald marks %s; choose another, such as %d", why,
		defaultMasqueradeBit))
}

// checkSystem refuses what the system of the daemon cannot do. Rules that are only rendered may be for any system.
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
