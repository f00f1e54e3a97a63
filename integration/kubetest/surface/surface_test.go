package surface

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
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
	cmd.Env = append(os.Environ(), asMode+"="+mode, "PATH="+withNFT(t)+":"+os.Getenv("PATH"))
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("mode %s: %v\n%s", mode, err, text)
	}
	return out
}

// withNFT is a folder with a command nft that takes everything. kube-proxy leaves out what it reads by nft where nft
// fails, and the list is not to depend on this host.
func withNFT(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" != --version ] || echo 'nftables v1.0.9 (as expected)'\n"
	if err := os.WriteFile(filepath.Join(dir, "nft"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sourcesBelow are all files of Kubernetes in some folders and below, but what is for tests.
func sourcesBelow(t *testing.T, folders ...string) (out []string) {
	t.Helper()
	for _, f := range folders {
		err := filepath.WalkDir(filepath.Join(kubernetes(t), f), func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && slices.Contains([]string{"testing", "kubemark"}, e.Name()):
				return filepath.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// kubernetes is the folder with the sources of Kubernetes.
func kubernetes(t *testing.T) string {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(folder))
}

// source is a file of Kubernetes.
func source(t *testing.T, file string) string {
	return filepath.Join(kubernetes(t), file)
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
	now.Features, err = Features(sourcesBelow(t, "cmd/kube-proxy", "pkg/proxy"))
	if err != nil {
		t.Fatal(err)
	}
	for server, file := range map[string]string{
		"metricsBindAddress": "cmd/kube-proxy/app/server.go", "healthzBindAddress": "pkg/proxy/healthcheck/proxy_health.go",
	} {
		paths, err := Paths(server, source(t, file))
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
