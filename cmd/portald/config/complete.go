package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// draft is a configuration that is being made from file and flags.
type draft struct {
	documents
	file      *file           // nil: none
	flags     map[string]bool // those that take effect
	anySystem bool            // modes and writers of other systems are valid too
	warnings  []string
	errs      []error
}

func newDraft(system string) *draft {
	return &draft{documents: documents{system: system}, flags: map[string]bool{}}
}

// Complete makes the configuration, once flags are parsed. The error names every mistake, one in a line. It may be
// called again, and then reads the file again.
func (f *Flags) Complete() (cfg *Config, warnings []string, err error) {
	d := newDraft(f.values.system)
	d.anySystem = f.AnySystem
	if f.File != "" {
		text, err := os.ReadFile(f.File)
		if err != nil {
			return nil, nil, fmt.Errorf("read configuration: %w", err)
		}
		d.use(load(f.File, text))
	}
	d.overlay(f)
	d.check()
	d.warnOfNoEffect()
	d.errs = append(d.errs, f.checkUse(d))
	name, err := d.nodeName()
	if err := errors.Join(append(d.errs, err)...); err != nil {
		return nil, d.warnings, err
	}
	cfg = d.resolve()
	cfg.NodeName = name
	return cfg, d.warnings, nil
}

// AsService tells whether the daemon is to run as a service of Windows, even if the configuration has mistakes.
func (f *Flags) AsService() bool {
	d := newDraft(f.values.system)
	if text, err := os.ReadFile(f.File); err == nil {
		d.use(load(f.File, text))
	}
	d.overlay(f)
	return d.isService()
}

// use starts from the contents of a file.
func (d *draft) use(f *file) {
	d.file, d.kubeProxy, d.portald = f, f.kubeProxy, f.portald
	d.warnings = append(d.warnings, f.warnings...)
	d.errs = append(d.errs, f.errs...)
}

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

// checkUse returns an error if the daemon needs a source of Services and has none.
func (f *Flags) checkUse(d *draft) error {
	serves := f.WriteTo == "" && !f.Cleanup && !f.InitOnly
	unclear := d.file != nil && len(d.file.errs) > 0 // a source may be in it
	if serves && !unclear && !d.hasSource() && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return errors.New("--kubeconfig or --manifests is missing: name a kubeconfig, or a file or directory of " +
			"manifests, or - for " +
			"standard input; only a pod finds the API server without")
	}
	return nil
}

// nodeName is the name of this node, as for kube-proxy. A blank one was refused before.
func (d *draft) nodeName() (string, error) {
	name := d.kubeProxy.HostnameOverride
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("read the host name: %w; set --hostname-override", err)
		}
		name = host
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}
