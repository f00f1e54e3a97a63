package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// renderings are the files beside each services.yaml, by who carries and who writes.
var renderings = map[string][]string{
	"userspace": {"--writer=iptables"},
	"iptables":  {"--proxy-mode=iptables"},
	"nftables":  {"--proxy-mode=nftables", "--nodeport-addresses=0.0.0.0/0,::/0"},
	"ipvs":      {"--proxy-mode=ipvs"},
	"netsh":     {"--writer=netsh"},
}

// runRender is the command with a node that is here and pods that are known.
func runRender(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"render", "--hostname-override=here", "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48",
		"--external-ip-cidrs=203.0.113.0/24", "--log-level=error"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// Every rendering is the same each time, and as it was.
func TestRender(t *testing.T) {
	eachRendering(t, func(t *testing.T, file string, args []string) {
		got, err := runRender(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := runRender(t, args...); again != got {
			t.Error("not the same twice")
		}
		compareRendering(t, file, got)
	})
}

// eachRendering runs a test for each file that holds a rendering, with the arguments that make it.
func eachRendering(t *testing.T, test func(t *testing.T, file string, args []string)) {
	t.Helper()
	cases, err := filepath.Glob("testdata/render/*/services.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, services := range cases {
		dir := filepath.Dir(services)
		for name, args := range renderings {
			t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) {
				test(t, filepath.Join(dir, name), append([]string{"--manifests=" + services}, args...))
			})
		}
	}
}

func compareRendering(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; UPDATE_GOLDEN=1 rewrites it):\n%s", path, diff)
	}
}

// The rules of one Service are those that all rules have and the rules without it lack: they name no other Service.
func TestRenderOneService(t *testing.T) {
	const services = "--manifests=testdata/render/mixed/services.yaml"
	for name, args := range renderings {
		got, err := runRender(t, slices.Concat([]string{services, "--service=shop/kernel"}, args)...)
		if err != nil {
			t.Fatal(err)
		}
		compareRendering(t, "testdata/render/mixed/"+name+"-of-kernel", got)
		others := strings.Contains(got, "10.96.0.10") || strings.Contains(got, "10.96.0.12")
		if !strings.Contains(got, "10.96.0.11") || others {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if _, err := runRender(t, services, "--service=shop/none"); err == nil || !strings.Contains(err.Error(), "shop/none") {
		t.Errorf("a Service that is not there: %v", err)
	}
	const local = "--manifests=testdata/render/local/services.yaml"
	check, err := runRender(t, local, "--service=shop/cart", "--writer=iptables")
	if err != nil || !strings.Contains(check, "--dport 32123 -j ACCEPT") {
		t.Errorf("the health-check port is missing: %v\n%s", err, check)
	}
	if _, err := runRender(t); err == nil || !strings.Contains(err.Error(), "--manifests") {
		t.Errorf("without manifests: %v", err)
	}
}

// Documents that cannot be read, and manifests without an object, have no rules: the command fails.
func TestRenderOfWhatCannotBeRead(t *testing.T) {
	const good = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: b}\n" +
		"spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n"
	for text, want := range map[string]string{
		"":                            "there is no object in it",
		"# nothing yet\n":             "there is no object in it",
		good + "---\nkind: [\n":       "document 2",
		good + "---\nnot an object\n": "document 2",
		good + "---\napiVersion: v1\nkind: Servce\nmetadata: {name: c}\n":        `no "Servce"`,
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: 3}\n": "spec.ports",
	} {
		path := filepath.Join(t.TempDir(), "cluster.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := runRender(t, "--manifests="+path); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: %v, want %q; printed:\n%s", text, err, want, out)
		}
	}
}
