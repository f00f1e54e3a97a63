package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// draft is a configuration on its way from file and flags to what is checked.
type draft struct {
	documents
	file     *file           // nil: none
	flags    map[string]bool // those that count
	warnings []string
	errs     []error
}

// Complete makes the configuration, once flags are parsed. The error names every mistake, one a line; warnings are what
// else there is to say. It may be called again: the file is read anew.
func (f *Flags) Complete() (cfg *Config, warnings []string, err error) {
	d := &draft{flags: map[string]bool{}}
	if f.File != "" {
		text, err := os.ReadFile(f.File)
		if err != nil {
			return nil, nil, fmt.Errorf("read configuration: %w", err)
		}
		d.take(load(f.File, text))
	}
	d.overlay(f)
	d.check()
	d.remarkIdle()
	d.errs = append(d.errs, f.checkUse(d))
	name, err := d.nodeName()
	if err := errors.Join(append(d.errs, err)...); err != nil {
		return nil, d.warnings, err
	}
	cfg = d.resolve()
	cfg.NodeName = name
	return cfg, d.warnings, nil
}

// take begins with what a file says.
func (d *draft) take(f *file) {
	d.file, d.documents = f, f.documents
	d.warnings = append(d.warnings, f.warnings...)
	d.errs = append(d.errs, f.errs...)
}

// overlay puts flags over the file, and defaults under both.
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
	d.copyFlags(f) // once for defaults that depend on them …
	if idle = append(idle, d.takePorts(f)...); len(idle) > 0 {
		d.warnings = append(d.warnings, fmt.Sprintf("without effect beside the KubeProxyConfiguration of %s: %s",
			d.file.path, strings.Join(idle, ", ")))
	}
	d.setDefaults()
	d.copyFlags(f) // … and again, since a zero that a flag says is none that was left open
}

// copyFlags copies the fields of the flags that count. A level or format that the command line says in kube-proxy's
// words beats one that the file says in portald's.
func (d *draft) copyFlags(f *Flags) {
	if d.flags["v"] {
		d.portald.Log.Level = ""
	}
	if d.flags["logging-format"] {
		d.portald.Log.Format = ""
	}
	for _, s := range settings() {
		if d.flags[s.flag] {
			d.at(s).Set(f.values.at(s))
		}
	}
	k := &d.kubeProxy
	if s := settingOf("iptables.syncPeriod"); d.flags[s.flag] && d.lent(s) {
		k.NFTables.SyncPeriod = k.IPTables.SyncPeriod
	}
	if s := settingOf("iptables.minSyncPeriod"); d.flags[s.flag] && d.lent(s) {
		k.NFTables.MinSyncPeriod = k.IPTables.MinSyncPeriod
	}
}

// lent tells whether the flag of a setting speaks for that of another group: on a command line kube-proxy has no other
// words for the times of nftables.
func (d *documents) lent(s setting) bool {
	return d.kubeProxy.Mode == modeNFTables && (s.path == "iptables.syncPeriod" || s.path == "iptables.minSyncPeriod")
}

// takePorts heeds the two flags for ports alone, and returns those that have no effect.
func (d *draft) takePorts(f *Flags) (idle []string) {
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
			d.warnings = append(d.warnings, fmt.Sprintf("--%s is deprecated: --%s says the same", x.flag, x.instead))
			*x.address = net.JoinHostPort(x.host, strconv.Itoa(int(x.port)))
		}
	}
	return idle
}

// checkUse tells whether the daemon can find its Services, where it is to serve any.
func (f *Flags) checkUse(d *draft) error {
	serves := f.WriteTo == "" && !f.Cleanup && !f.InitOnly
	unclear := d.file != nil && len(d.file.errs) > 0 // it may be there
	if serves && !unclear && !d.hasSource() && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return errors.New("--kubeconfig or --manifests is missing: say where the API server is, or name a file or folder of " +
			"manifests, or - for standard input; only in a pod the API server is found without")
	}
	return nil
}

// nodeName finds the node's name as kube-proxy does. One that is said and blank is a mistake that was named.
func (d *draft) nodeName() (string, error) {
	name := d.kubeProxy.HostnameOverride
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("ask for the host's name: %w: give --hostname-override", err)
		}
		name = host
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}
