package netsh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The system's netsh runs, whatever the search path says.
func TestExecutable(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "netsh.exe")
	if err := os.WriteFile(fake, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(fake))
	t.Setenv("SystemRoot", filepath.Dir(fake))
	path, err := executable()
	if err != nil || strings.EqualFold(path, fake) || !strings.HasSuffix(strings.ToLower(path), `\system32\netsh.exe`) {
		t.Errorf("%q, %v", path, err)
	}
}

// Bytes of the console's code page become text; UTF-8 stays.
func TestDecode(t *testing.T) {
	if got := decode([]byte("erh\x94hte Rechte")); got != "erhöhte Rechte" { // in 437 and 850
		t.Errorf("%q", got)
	}
	if got := decode([]byte("对象")); got != "对象" {
		t.Errorf("%q", got)
	}
}

// The interfaces of this host have identifiers.
func TestLUIDs(t *testing.T) {
	all, err := HostInterfaces()
	if err != nil || len(all) == 0 {
		t.Fatalf("interfaces %v, %v", all, err)
	}
	for _, i := range all {
		if i.LUID == 0 {
			t.Errorf("interface %q has none", i.Name)
		}
	}
}
