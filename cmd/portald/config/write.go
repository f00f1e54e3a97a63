package config

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Write writes the configuration to a file for --config: both documents, with all defaults. A file that it makes is for
// its user alone, since secrets may be in it.
func (c *Config) Write(path string) error {
	text, err := c.documents.encode()
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// Documents are the documents that Write writes, by API group, to be encoded as JSON. Secrets are not shown.
func (c *Config) Documents() map[string]any {
	d := c.documents
	d.writeZeros()
	return map[string]any{v1alpha1.GroupName: d.kubeProxy, portaldGroup: d.portald}
}

func (d documents) encode() ([]byte, error) {
	d.writeZeros()
	d.openSecrets()
	first, err := yaml.Marshal(d.kubeProxy)
	if err != nil {
		return nil, err
	}
	second, err := yaml.Marshal(d.portald)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{first, second}, []byte("---\n")), nil
}

// writeZeros replaces zeros that were set by values of the same meaning, where a zero in a file means "not set".
func (d *documents) writeZeros() {
	k := &d.kubeProxy
	fill(&k.HealthzBindAddress, "0.0.0.0:0")
	fill(&k.MetricsBindAddress, "127.0.0.1:0")
	fillTime(&k.IPTables.MinSyncPeriod, time.Nanosecond)
	fillTime(&k.IPVS.MinSyncPeriod, time.Nanosecond)
	fillTime(&k.NFTables.MinSyncPeriod, time.Nanosecond)
}
