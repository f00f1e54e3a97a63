package config

import (
	"fmt"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/userspace"
)

// warnOfNoEffect adds warnings of flags and fields that have no effect.
func (d *draft) warnOfNoEffect() {
	for _, s := range settings() {
		if why := d.noEffect(s); d.flags[s.flag] && why != "" && !d.sharesFlag(s) {
			d.warnings = append(d.warnings, fmt.Sprintf("--%s has no effect: %s", s.flag, why))
		}
	}
	for _, which := range []doc{kubeProxy, portald} {
		if idle := d.fieldsWithoutEffect(which); len(idle) > 0 {
			d.warnings = append(d.warnings, fmt.Sprintf("%s: no effect: %s; see portald config check %s",
				d.file.where(which), strings.Join(idle, ", "), d.file.path))
		}
	}
}

// fieldsWithoutEffect returns the fields of a document in the file that differ from the default and have no effect.
func (d *draft) fieldsWithoutEffect(which doc) (out []string) {
	if !d.file.has(which) {
		return nil
	}
	for _, s := range settings() {
		if value, written := d.file.written[which][s.path]; s.doc == which && written && !d.flags[s.flag] &&
			d.noEffect(s) != "" &&
			!d.isDefault(s, value) {
			out = append(out, s.path)
		}
	}
	return out
}

// warnOfMode warns of modes of a configuration that kube-proxy has, or will have, other than portald: an empty one
// (KEP-5343), and IPVS (KEP-5495).
func (d *draft) warnOfMode() {
	if !d.file.has(kubeProxy) || d.unread(settingOf("mode")) {
		return
	}
	warn := func(format string, args ...any) {
		where := d.file.where(kubeProxy) + ": "
		d.warnings = append(d.warnings, where+fmt.Sprintf(format, args...))
	}
	switch mode := string(d.kubeProxy.Mode); {
	case mode == "" && d.system == windows:
		warn("mode: is empty, which is %s here and %s in kube-proxy; write the one that you want: %s", d.proxyMode(),
			modeWindows, modeUserspace)
	case mode == "":
		warn("mode: is empty, which is %s here and iptables in kube-proxy (nftables from 1.40 on); write the one that you "+
			"want: userspace, iptables, nftables or ipvs", d.proxyMode())
	case mode == modeIPVS && d.system != windows:
		warn("mode: ipvs stays in portald; kube-proxy has it off by default from 1.40 on and removes it in 1.43, so that a " +
			"way back to kube-proxy then takes another mode")
	}
}

// nodePortRange are the ports that Kubernetes gives to Services, unless its API server says otherwise.
var nodePortRange = inet.PortRange{First: 30000, Last: 32767}

// warnOfNodePorts warns of a range of local ports that has some that Services may have as node ports.
func (d *draft) warnOfNodePorts() {
	s := settingOf("proxyPortRange")
	r, err := parsePortRange(d.portald.ProxyPortRange)
	if err != nil || !r.Overlaps(nodePortRange) || d.noEffect(s) != "" {
		return
	}
	if d.portald.ProxyPortRange == d.kubeProxy.PortRange {
		s = settingOf("portRange")
	}
	d.warnings = append(d.warnings, fmt.Sprintf("%s: %s: overlaps the node ports %s that API servers give by default: "+
		"a port that portald has taken cannot be a Service's healthCheckNodePort, nor a NodePort at a loopback address; "+
		"choose others, such as %s", d.origin(s), r, nodePortRange, userspace.DefaultPortRange()))
}
