package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

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
	name, err := d.kubeProxy.nodeName()
	if err := errors.Join(append(d.errs, err)...); err != nil {
		return nil, d.warnings, err
	}
	cfg = d.config()
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
func (k *kubeProxyDocument) nodeName() (string, error) {
	name := k.HostnameOverride
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("read the host name: %w; set --hostname-override", err)
		}
		name = host
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}
