package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// overlay overrides the file by flags, and sets defaults.
func (d *draft) overlay(f *Flags) {
	var idle []string
	for _, s := range settings() {
		if s.flag == "" || !f.given(s.flag) {
			continue
		}
		if d.file.has(s.doc) && !s.beatsFile() {
			idle = append(idle, "--"+s.flag)
			continue
		}
		d.flags[s.flag] = true
	}
	d.copyFlags(f, false) // once for defaults that depend on them
	if idle = append(idle, d.usePortFlags(f)...); len(idle) > 0 {
		d.warnings = append(d.warnings, fmt.Sprintf("no effect beside the KubeProxyConfiguration of %s: %s",
			d.file.path, strings.Join(idle, ", ")))
	}
	d.setDefaults()
	d.copyFlags(f, true) // and again, since a zero that a flag sets is not a missing value
}

// copyFlags copies the fields of the flags that take effect: before defaults are set, and again when they are.
// kube-proxy's flags of level and format override portald's own fields in the file.
func (d *draft) copyFlags(f *Flags, defaulted bool) {
	if d.flags["v"] {
		d.portald.Log.Level = ""
	}
	if d.flags["logging-format"] {
		d.portald.Log.Format = ""
	}
	for _, s := range settings() {
		switch value := f.values.at(s); {
		case !d.flags[s.flag]:
		case !s.standsForDefault(value):
			d.at(s).Set(value)
		case !defaulted:
			d.at(s).SetZero()
		}
	}
	k := &d.kubeProxy
	if s := settingOf("iptables.syncPeriod"); d.flags[s.flag] && d.sharesFlag(s) {
		k.NFTables.SyncPeriod = k.IPTables.SyncPeriod
	}
	if s := settingOf("iptables.minSyncPeriod"); d.flags[s.flag] && d.sharesFlag(s) {
		k.NFTables.MinSyncPeriod = k.IPTables.MinSyncPeriod
	}
}

// sharesFlag tells whether the flag of a setting sets that of another group too: kube-proxy has no flags of their own
// for the periods of nftables.
func (d *documents) sharesFlag(s setting) bool {
	return d.kubeProxy.Mode == modeNFTables && (s.path == "iptables.syncPeriod" || s.path == "iptables.minSyncPeriod")
}

// usePortFlags applies the two deprecated flags for ports, and returns those that have no effect.
func (d *draft) usePortFlags(f *Flags) (idle []string) {
	for _, x := range []struct {
		flag, instead string
		port          uint16
		address       *string
		host          string
	}{
		{"healthz-port", "healthz-bind-address", f.healthPort, &d.kubeProxy.HealthzBindAddress, "0.0.0.0"},
		{"metrics-port", "metrics-bind-address", f.metricsPort, &d.kubeProxy.MetricsBindAddress, "127.0.0.1"},
	} {
		switch {
		case !f.given(x.flag):
		case d.file.has(kubeProxy):
			idle = append(idle, "--"+x.flag)
		case d.flags[x.instead]:
			d.warnings = append(d.warnings, fmt.Sprintf("--%s has no effect beside --%s", x.flag, x.instead))
		default:
			d.warnings = append(d.warnings, fmt.Sprintf("--%s is deprecated; use --%s", x.flag, x.instead))
			*x.address = net.JoinHostPort(x.host, strconv.Itoa(int(x.port)))
		}
	}
	return idle
}
