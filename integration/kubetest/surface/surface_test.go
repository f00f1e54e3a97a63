package surface

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	golden = "../../../cmd/portald/testdata/kube-proxy.json"
	asMode = "SURFACE_METRICS_OF" // the mode whose metrics the process is to print, "+hidden" behind it
)

func TestMain(m *testing.M) {
	if os.Getenv(asKubeProxy) != "" {
		os.Exit(kubeProxy())
	}
	mode, child := os.LookupEnv(asMode)
	if !child {
		os.Exit(m.Run())
	}
	mode, hidden := strings.CutSuffix(mode, "+hidden")
	if hidden {
		ShowHidden()
	}
	all, err := Metrics(mode)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(all)
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

// metricsOf are those of a mode, in a process of their own.
func metricsOf(t *testing.T, mode string) (out []Metric) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asMode+"="+mode)
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("mode %s: %v\n%s", mode, err, text)
	}
	return out
}

// sources are files of Kubernetes.
func sources(t *testing.T, patterns ...string) (out []string) {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), p))
		if err != nil || len(found) == 0 {
			t.Fatalf("no file %s: %v", p, err)
		}
		out = append(out, slices.DeleteFunc(found, func(f string) bool { return strings.HasSuffix(f, "_test.go") })...)
	}
	return out
}

// The repository's lists of kube-proxy's flags and names equal kube-proxy's own. UPDATE_GOLDEN=1 writes them again.
func TestSurface(t *testing.T) {
	now := Surface{Flags: Flags()}
	var err error
	if now.Fields, err = Fields(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"iptables", "ipvs", "nftables", "kernelspace"} {
		plain := metricsOf(t, mode)
		if hidden := metricsOf(t, mode+"+hidden"); len(hidden) != len(plain) {
			t.Errorf("in mode %s kube-proxy hides metrics, and portald says that it does not: %v, of %v", mode, plain, hidden)
		}
		now.Metrics = append(now.Metrics, plain...)
	}
	slices.SortFunc(now.Metrics, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	now.Metrics = slices.CompactFunc(now.Metrics, func(a, b Metric) bool { return a.Name == b.Name })
	now.Features, err = Features(sources(t, "cmd/kube-proxy/app/*.go", "pkg/proxy/*.go", "pkg/proxy/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for server, file := range map[string]string{
		"metricsBindAddress": "cmd/kube-proxy/app/server.go", "healthzBindAddress": "pkg/proxy/healthcheck/proxy_health.go",
	} {
		paths, err := Paths(server, sources(t, file)[0])
		if err != nil {
			t.Fatal(err)
		}
		now.Paths = append(now.Paths, paths...)
	}
	slices.Sort(now.Paths)
	text, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was, err := os.ReadFile(golden); err != nil || !bytes.Equal(was, text) {
		t.Errorf("%v; kube-proxy has changed: UPDATE_GOLDEN=1 writes %s, and git shows what is new\n%s", err, golden, text)
	}
}
