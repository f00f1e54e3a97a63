package platform

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEarlyDemux(t *testing.T) {
	const file = "proc/sys/net/ipv4/tcp_early_demux"
	for _, c := range []struct {
		name         string
		kernel       KernelVersion
		before, want string
		changed      string
	}{
		{"a kernel that is mistaken", KernelVersion{6, 1}, "1\n", "0", "/" + file + ": 0, was 1"},
		{"another", KernelVersion{5, 15}, "1\n", "0", "/" + file + ": 0, was 1"},
		{"off already", KernelVersion{6, 6}, "0\n", "0\n", ""},
		{"a kernel that is not", KernelVersion{6, 7}, "1\n", "1\n", ""},
		{"a later one", KernelVersion{7, 0}, "1\n", "1\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			kernelFiles(t, root, map[string]string{file: c.before})
			changed, err := disableTCPEarlyDemux(root, c.kernel)
			if err != nil || changed != c.changed {
				t.Errorf("changed %q, %v, want %q", changed, err, c.changed)
			}
			if got, _ := os.ReadFile(filepath.Join(root, file)); string(got) != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
	if changed, err := disableTCPEarlyDemux(t.TempDir(), KernelVersion{4, 4}); changed != "" || err != nil {
		t.Errorf("a kernel without the setting: changed %q, %v", changed, err)
	}
	if Kernel().Before(KernelVersion{3, 0}) {
		t.Errorf("this kernel has version %v", Kernel())
	}
}
