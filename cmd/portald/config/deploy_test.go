package config

import (
	"bytes"
	"strings"
	"testing"
)

// The configuration for nodes with Windows is checked here, since `portald config check` is for the system it runs on.
func TestConfigurationOfDeployForWindows(t *testing.T) {
	var out bytes.Buffer
	check(t, checkFor(windows, "../../../deploy/windows/config.yaml", &out))
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "ignored") || strings.HasPrefix(line, "warning") {
			t.Error(line)
		}
	}
	if !strings.Contains(out.String(), "used: MODE") {
		t.Errorf("nothing was checked:\n%s", &out)
	}
}
