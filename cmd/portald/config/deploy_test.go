package config

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The configuration for nodes with Windows is checked here, since `portald config check` is for the system it runs on.
func TestConfigurationOfDeployForWindows(t *testing.T) {
	var out bytes.Buffer
	_, err := checkFor(windows, "../../../deploy/windows/config.yaml", &out)
	check(t, err)
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "ignored") || strings.HasPrefix(line, "warning") {
			t.Error(line)
		}
	}
	if !strings.Contains(out.String(), "used: MODE") {
		t.Errorf("nothing was checked:\n%s", &out)
	}
}

// The manual for Windows has the lines by which the daemon refuses what it cannot do there.
func TestManualHasRefusalsOfWindows(t *testing.T) {
	text, err := os.ReadFile("../../../docs/windows.md")
	check(t, err)
	for _, flags := range []string{
		"--proxy-mode=iptables", "--proxy-mode=kernelspace", "--writer=nftables", "--on-exit=kernel",
		"--client-address=transparent", "--detect-local-mode=BridgeInterface --pod-bridge-interface=x",
	} {
		_, _, err := completeOn(t, windows, append(strings.Fields(flags), "--manifests=x")...)
		if err == nil {
			t.Fatalf("%s is not refused", flags)
		}
		_, why, _ := strings.Cut(err.Error(), ": ")
		if !strings.Contains(string(text), "`"+why+"`") {
			t.Errorf("docs/windows.md does not have %q", why)
		}
	}
}
