package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/portald/portald/cmd/portald/config"
)

// rendered are the rules for manifests in mode nftables, and what was logged.
func rendered(t *testing.T, manifests string) (rules, said string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(path, []byte(manifests), 0o644); err != nil {
		t.Fatal(err)
	}
	flags, set := config.NewFlags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AnySystem = true
	for _, s := range flags.Sections() {
		set.AddFlagSet(s.Flags)
	}
	if err := set.Parse([]string{"--manifests=" + path, "--proxy-mode=nftables", "--hostname-override=n1"}); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := flags.Complete()
	if err != nil {
		t.Fatal(err)
	}
	var out, text bytes.Buffer
	log := logrus.New()
	log.SetOutput(&text)
	err = Render(t.Context(), cfg, log, "", &out)
	return out.String(), text.String(), err
}

const clusterIP = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n" +
	"spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n"

// Rules for a part of the manifests would look like rules for all of them.
func TestRenderOfWhatCannotBeRead(t *testing.T) {
	rules, _, err := rendered(t, clusterIP+"---\nkind: [\n")
	if err == nil || !strings.Contains(err.Error(), "m.yaml: document 2 (line 6): yaml: line 7: ") || rules != "" {
		t.Errorf("%v; printed %q", err, rules)
	}
}

// NodePorts that nobody has are not missed.
func TestRenderSaysWhichNodePortsAreLeftOut(t *testing.T) {
	const leftOut = "NodePorts are not served"
	nodePort := strings.Replace(clusterIP, "{clusterIP: 10.96.0.1, ports: [{port: 80}]}",
		"{type: NodePort, clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 30080}]}", 1)
	for text, want := range map[string]bool{clusterIP: false, nodePort: true} {
		if _, said, err := rendered(t, text); err != nil || strings.Contains(said, leftOut) != want {
			t.Errorf("%v; of %s\nsaid %s", err, text, said)
		}
	}
}
