package config

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// takesTable has what kube-proxy takes; integration/kubetest/surface asks it.
const takesTable = "../testdata/kube-proxy-takes.txt"

// portald takes and refuses what the table says, and differs from kube-proxy where the table says why. UPDATE_GOLDEN=1
// writes portald's column.
func TestTakes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the table is of kube-proxy on Linux")
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	text, err := os.ReadFile(takesTable)
	check(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	cases := 0
	for i, line := range lines {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) < 3 || fields[0] == "#" {
			continue
		}
		cases++
		theirs, was := fields[0], fields[1]
		config, why, explained := strings.Cut(fields[2], " ## ")
		now := "taken"
		err := completeCase(t, config)
		if err != nil {
			now = "refused"
		}
		switch {
		case now != was && os.Getenv("UPDATE_GOLDEN") == "":
			t.Errorf("%s, the table says %s: %s\n%v", now, was, config, err)
		case now != theirs && !explained:
			t.Errorf("%s, by kube-proxy %s, and the table does not say why: %s\n%v", now, theirs, config, err)
		case now == theirs && explained:
			t.Errorf("%s, as by kube-proxy, and the table says why it differs: %s: %s", now, config, why)
		}
		lines[i] = theirs + " " + now + " " + fields[2] + "\n"
	}
	if cases < 200 {
		t.Errorf("the table has %d cases", cases)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		check(t, os.WriteFile(takesTable, []byte(strings.Join(lines, "")), 0o644))
	}
}

// completeCase makes the configuration of a line of the table.
func completeCase(t *testing.T, config string) error {
	t.Helper()
	f := newFlags("linux")
	var args []string
	if strings.HasPrefix(config, "--") {
		args = strings.Split(config, " ")
	} else {
		path := filepath.Join(t.TempDir(), "config.yaml")
		check(t, os.WriteFile(path, fileOfCase(t, config), 0o644))
		args = []string{"--config", path}
	}
	flags := allFlags(f)
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err != nil {
		return err
	}
	_, _, err := f.Complete()
	return err
}

// fileOfCase is the file of a line of the table.
func fileOfCase(t *testing.T, config string) []byte {
	t.Helper()
	how, rest, ok := strings.Cut(config, "] ")
	if ok && strings.HasPrefix(how, "[") {
		config = rest
	}
	config = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(config) + "\n"
	if !strings.HasPrefix(config, "apiVersion") && !strings.HasPrefix(config, "{") {
		config = kubeHead + config
	}
	encode := encoding.Nop.NewEncoder()
	switch how {
	case "[utf-8":
		config = "\ufeff" + config
	case "[utf-16le":
		encode = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder()
	case "[utf-16be":
		encode = unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder()
	case "[cr":
		config = strings.ReplaceAll(config, "\n", "\r")
	case "[crlf":
		config = strings.ReplaceAll(config, "\n", "\r\n")
	}
	out, err := encode.Bytes([]byte(config))
	check(t, err)
	return out
}
