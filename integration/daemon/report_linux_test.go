package daemon

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// reported runs portald report, and returns the files of its archive by name.
func reported(d *bed.Daemon, args ...string) map[string]string {
	d.Helper()
	path := filepath.Join(d.TempDir(), "report.tar.gz")
	inspect(d, append([]string{"report", "-o", path}, args...)...)
	f, err := os.Open(path)
	d.Must(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	d.Must(err)
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		d.Must(err)
		text, err := io.ReadAll(r)
		d.Must(err)
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = string(text)
	}
}

// A report has what the daemon shows, an explanation of the Service that fails, and no secret. Redacted it has no name
// and no address of the cluster either. Without the daemon it says what it lacks.
func TestReport(t *testing.T) {
	b := bed.New(t)
	d := b.Start(b.Cart(0), "--connection-log-otlp-endpoint=http://collector.example:4318",
		"--connection-log-otlp-headers=x-key=hush") // no pod serves: dials are refused
	d.ExpectErrors = true
	_, _ = bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)) // it fails
	b.Eventually("the failure", func() bool { return inspect(d, "tail", "--outcome", "failed") != "" })

	files := reported(d)
	for name, want := range map[string]string{
		"README.txt":         "explain/01.txt",
		"versions.txt":       "kernel",
		"daemon.json":        `"node":"here"`,
		"doctor.txt":         "",
		"configuration.json": `"proxyPortRange"`,
		"services.txt":       "shop/cart:http",
		"services.json":      `"name":"shop/cart:http"`,
		"endpoints.txt":      bed.HostPort(b.Net.Pod(0).IPv4.String(), bed.PodPort),
		"endpoints.json":     `"pod":"shop/pod0"`,
		"changes.txt":        "",
		"failures.txt":       "shop/cart:http tcp",
		"failures.json":      `"outcome":"dial_failed"`,
		"metrics.txt":        "portald_connections_total",
		"explain/01.txt":     "shop/cart",
	} {
		if text, ok := files[name]; !ok || !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%.2000s", name, want, text)
		}
	}
	for name, text := range files {
		if strings.Contains(text, "hush") {
			t.Errorf("%s has a secret:\n%.2000s", name, text)
		}
	}
	if !strings.Contains(files["README.txt"], "nothing is missing") {
		t.Errorf("the index says:\n%s", files["README.txt"])
	}

	for name, text := range reported(d, "--redact") {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "# HELP ") {
				continue
			}
			for _, secret := range []string{"shop", "cart", "pod0", "collector.example", bed.IP4,
				b.Net.Pod(0).IPv4.String(), b.Client.IPv4.String(), b.Node.IPv4.String(), `"here"`} {
				if strings.Contains(line, secret) {
					t.Errorf("%s has %q: %.300s", name, secret, line)
				}
			}
		}
	}

	d.Stop()
	files = reported(d)
	if index := files["README.txt"]; files["doctor.txt"] == "" || !strings.Contains(index, "not reachable") {
		t.Errorf("without a daemon:\n%s", index)
	}
}
