package platform

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHostLimits(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "setting")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if n, err := localPorts(file("32768\t60999\n")); n != 28232 || err != nil {
		t.Errorf("got %d local ports, %v", n, err)
	}
	for _, bad := range []string{"", "many", "2 1"} {
		if n, err := localPorts(file(bad)); err == nil {
			t.Errorf("%q is %d local ports", bad, n)
		}
	}
	if n, err := pipePages(file("16384\n")); n != 16384 || err != nil {
		t.Errorf("got %d pages, %v", n, err)
	}
	if _, err := LocalPorts(); err != nil {
		t.Error(err)
	}
	if _, err := PipePages(); err != nil {
		t.Error(err)
	}
}
