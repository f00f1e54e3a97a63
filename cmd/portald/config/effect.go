package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// noEffect is why a setting has no effect beside the others, empty if it has one.
func (d *documents) noEffect(s setting) string {
	group, name, _ := strings.Cut(s.path, ".")
	if why := cmp.Or(noEffectOn(d.system, s), noEffectBeside(d.portald.Writer, s)); why != "" {
		return why
	}
	switch local := DetectLocalMode(d.kubeProxy.DetectLocalMode); {
	case s.effect == ignored:
		return s.plainText()
	case s.doc == kubeProxy && strings.HasSuffix(name, "yncPeriod") && group != d.periods():
		return "the mode uses those of " + d.periods()
	case s.path == "udpIdleTimeout" && d.kubeProxy.Mode != modeUserspace:
		return "for mode userspace only"
	case s.doc == kubeProxy && strings.HasPrefix(name, "masquerade") && group != d.masquerades():
		return "the writer is " + d.portald.Writer + ", which uses " + d.masquerades() + "." + name
	case group == modeIPVS && !strings.HasSuffix(name, "yncPeriod") && d.portald.Writer != modeIPVS:
		return "for the writer ipvs only; the writer is " + d.portald.Writer
	case s.path == "clusterCIDR" && (local == ByNodeCIDR || local == ByBridgeInterface || local == ByInterfacePrefix):
		return "detectLocalMode is " + string(local)
	case slices.Contains([]string{"interfaceName", "overlayNetwork"}, s.path) && d.portald.Writer != writerNetsh:
		return "for the writer netsh only; the writer is " + d.portald.Writer
	case s.path == "serviceCIDRs" && d.portald.Writer != modeNFTables:
		return "for the writer nftables only; the writer is " + d.portald.Writer
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

// isDefault tells whether a setting has its default; value is the written one, for fields that this release does not
// have.
func (d *documents) isDefault(s setting, value any) bool {
	field := d.at(s)
	if !field.IsValid() {
		return value == nil
	}
	plain := documents{system: d.system}
	if s.path != "mode" {
		plain.kubeProxy.Mode = d.kubeProxy.Mode // some defaults depend on it
	}
	plain.setDefaults()
	return shown(field.Interface()) == shown(plain.at(s).Interface())
}

func (d *documents) effectOf(s setting) string {
	if why := d.noEffect(s); why != "" {
		return "ignored: " + why
	}
	if s.effect == live {
		return "used: " + s.gist() + "; changes take effect at once"
	}
	return "used: " + s.gist()
}
