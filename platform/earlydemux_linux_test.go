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
		kernel       version
		before, want string
		changed      string
	}{
		{"a kernel that is mistaken", version{6, 1}, "1\n", "0", "/" + file + ": 0, was 1"},
		{"another", version{5, 15}, "1\n", "0", "/" + file + ": 0, was 1"},
		{"off already", version{6, 6}, "0\n", "0\n", ""},
		{"a kernel that is not", version{6, 7}, "1\n", "1\n", ""},
		{"a later one", version{7, 0}, "1\n", "1\n", ""},
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
	if changed, err := disableTCPEarlyDemux(t.TempDir(), version{4, 4}); changed != "" || err != nil {
		t.Errorf("a kernel without the setting: changed %q, %v", changed, err)
	}
	if kernelVersion().before(version{3, 0}) {
		t.Errorf("this kernel has version %v", kernelVersion())
	}
}
