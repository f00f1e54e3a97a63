package surface

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-proxy/app"
)

const (
	takes       = "../../../cmd/portald/testdata/kube-proxy-takes.txt"
	asKubeProxy = "SURFACE_KUBE_PROXY" // the process is to be kube-proxy
)

// kubeProxy is the program. It reads os.Args.
func kubeProxy() int { return cli.Run(app.NewProxyCommand()) }

// kube-proxy takes and refuses values as in the table, which cmd/portald/config compares with portald. UPDATE_GOLDEN=1
// writes its column.
func TestTakes(t *testing.T) {
	text, err := os.ReadFile(takes)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	said := make([]string, len(lines))
	var cases sync.WaitGroup
	places := make(chan struct{}, 4)
	for i, line := range lines {
		was, rest, _ := strings.Cut(line, " ")
		portald, config, ok := strings.Cut(rest, " ")
		if !ok || was == "#" {
			continue
		}
		cases.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			config, _, _ = strings.Cut(strings.TrimSuffix(config, "\n"), " ## ")
			now := "taken"
			if said[i] = run(t, config); said[i] != "" {
				now = "refused"
			}
			if now != was && os.Getenv("UPDATE_GOLDEN") == "" {
				t.Errorf("kube-proxy: %s, the table says %s: %s\n%s", now, was, config, said[i])
			}
			lines[i] = now + " " + portald + " " + strings.SplitN(line, " ", 3)[2]
		})
	}
	cases.Wait()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(takes, []byte(strings.Join(lines, "")), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// run returns kube-proxy's message if it refuses a configuration; empty: it takes it.
func run(t *testing.T, config string) string {
	dir := t.TempDir()
	args := []string{"--write-config-to=" + filepath.Join(dir, "out")}
	if strings.HasPrefix(config, "--") {
		args = append(args, strings.Split(config, " ")...)
	} else {
		path := filepath.Join(dir, "config")
		if err := os.WriteFile(path, fileOf(config), 0o644); err != nil {
			t.Error(err)
		}
		args = append(args, "--config="+path)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asKubeProxy+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%v: %s", err, out)
}

// fileOf is the file of a configuration in the table.
func fileOf(config string) []byte {
	encoded, rest, ok := strings.Cut(config, "] ")
	if ok && strings.HasPrefix(encoded, "[") {
		config = rest
	}
	config = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(config) + "\n"
	if !strings.HasPrefix(config, "apiVersion") && !strings.HasPrefix(config, "{") {
		config = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" + config
	}
	const mark = "\ufeff"
	switch encoded {
	case "[utf-8":
		config = mark + config
	case "[utf-16le":
		return inUTF16(binary.LittleEndian, mark+config)
	case "[utf-16be":
		return inUTF16(binary.BigEndian, mark+config)
	case "[cr":
		config = strings.ReplaceAll(config, "\n", "\r")
	case "[crlf":
		config = strings.ReplaceAll(config, "\n", "\r\n")
	}
	return []byte(config)
}

func inUTF16(order binary.AppendByteOrder, text string) (out []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return out
}
