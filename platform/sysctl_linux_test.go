package platform

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	conntrackDir = "proc/sys/net/netfilter/nf_conntrack_"
	hashsize     = "sys/module/nf_conntrack/parameters/hashsize"
)

// kernelFiles puts files with these contents under a root of their own.
func kernelFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConntrackMax(t *testing.T) {
	for _, c := range []struct{ perCPU, least, cpus, want int }{
		{32768, 131072, 2, 131072},
		{32768, 131072, 8, 262144},
		{32768, 0, 1, 32768},
		{32768, 131072, 64, 1 << 20},
		{32768, 2 << 20, 64, 2 << 20},
		{0, 131072, 8, 0},
	} {
		if got := ConntrackMax(c.perCPU, c.least, c.cpus); got != c.want {
			t.Errorf("%d for each of %d CPUs, at least %d: %d, want %d", c.perCPU, c.cpus, c.least, got, c.want)
		}
	}
}

func TestConntrackApply(t *testing.T) {
	files := map[string]string{
		conntrackDir + "max": "65536\n", hashsize: "16384\n",
		conntrackDir + "tcp_timeout_established": "432000\n", conntrackDir + "tcp_timeout_close_wait": "60\n",
		conntrackDir + "udp_timeout": "30\n", conntrackDir + "udp_timeout_stream": "120\n",
		conntrackDir + "tcp_be_liberal": "0\n",
	}
	all := Conntrack{Max: 131072, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour, UDP: 20 * time.Second,
		UDPStream: 1500 * time.Millisecond, TCPBeLiberal: true}
	for _, c := range []struct {
		name string
		set  Conntrack
		want map[string]string // of the files that change
	}{
		{"nothing", Conntrack{}, nil},
		{"all", all, map[string]string{
			conntrackDir + "max": "131072", hashsize: "32768",
			conntrackDir + "tcp_timeout_established": "86400", conntrackDir + "tcp_timeout_close_wait": "3600",
			conntrackDir + "udp_timeout": "20", conntrackDir + "udp_timeout_stream": "2",
			conntrackDir + "tcp_be_liberal": "1",
		}},
		{"fewer flows and buckets than there is room for", Conntrack{Max: 32768}, nil},
		{"as it is", Conntrack{Max: 65536, TCPCloseWait: time.Minute, UDP: 30 * time.Second}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.set.root = t.TempDir()
			kernelFiles(t, c.set.root, files)
			changed, err := c.set.Apply()
			if err != nil || len(changed) != len(c.want) {
				t.Errorf("changed %q, %v, want %d of them", changed, err, len(c.want))
			}
			for name, before := range files {
				want, touched := c.want[name]
				if !touched {
					want = before
				}
				if got, _ := os.ReadFile(filepath.Join(c.set.root, name)); string(got) != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
				said := slices.ContainsFunc(changed, func(s string) bool { return strings.HasPrefix(s, "/"+name+": "+want) })
				if said != touched {
					t.Errorf("%s: said %v in %q, want %v", name, said, changed, touched)
				}
			}
		})
	}
}

// Every setting that cannot be written is in the error, and all others are written.
func TestConntrackApplyTellsAll(t *testing.T) {
	root := t.TempDir()
	kernelFiles(t, root, map[string]string{conntrackDir + "max": "many", conntrackDir + "udp_timeout": "30"})
	changed, err := Conntrack{Max: 1 << 17, UDP: time.Minute, UDPStream: time.Minute, root: root}.Apply()
	if want := []string{"/proc/sys/net/netfilter/nf_conntrack_udp_timeout: 60, was 30"}; !slices.Equal(changed, want) {
		t.Errorf("changed %q, want %q", changed, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want missing files", err)
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		"nf_conntrack_max to 131072: ", "hashsize to 32768: no such file or directory: the kernel has no",
		"nf_conntrack_udp_timeout_stream to 60: no such",
	} {
		if len(lines) != 3 || !strings.Contains(lines[i], want) {
			t.Errorf("%q lacks %q", lines, want)
		}
	}
}

// In a network namespace of its own, timeouts are its own, and the size of the table is the host's.
func TestConntrackInNamespace(t *testing.T) {
	inNamespace(t)
	const file = "/" + conntrackDir + "udp_timeout_stream"
	changed, err := Conntrack{UDPStream: 77 * time.Second}.Apply()
	if got, _ := os.ReadFile(file); err != nil || len(changed) != 1 || string(got) != "77\n" {
		t.Errorf("changed %q, %v, and it is %q", changed, err, got)
	}
	if changed, err = (Conntrack{UDPStream: 77 * time.Second}).Apply(); err != nil || len(changed) != 0 {
		t.Errorf("again: changed %q, %v", changed, err)
	}
	for _, file := range []string{"/" + conntrackDir + "max", "/" + hashsize} {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = setting{file: file, value: 4711}.apply("")
		if err == nil || !strings.Contains(err.Error(), "the host's own network namespace") {
			t.Errorf("the host's: %v", err)
		}
		if after, _ := os.ReadFile(file); string(after) != string(before) {
			t.Errorf("%s of the host's is %s now, was %s", file, after, before)
		}
	}
}

func TestConntrackReadOnly(t *testing.T) {
	inNamespace(t) // for its locked thread, and for what it takes
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	mount := func(flags uintptr, source, kind string) {
		t.Helper()
		if err := unix.Mount(source, root, kind, flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	mount(0, "none", "tmpfs")
	defer unix.Unmount(root, 0)
	kernelFiles(t, root, map[string]string{conntrackDir + "udp_timeout": "30"})
	mount(unix.MS_REMOUNT|unix.MS_RDONLY, "none", "tmpfs")
	changed, err := Conntrack{UDP: time.Minute, root: root}.Apply()
	const want = "set /proc/sys/net/netfilter/nf_conntrack_udp_timeout to 60: read-only file system: " +
		"set it on the host, or mount it writable"
	if !errors.Is(err, syscall.EROFS) || err.Error() != want || len(changed) > 0 {
		t.Errorf("changed %q, %v", changed, err)
	}
	if _, err := (Conntrack{UDP: 30 * time.Second, root: root}).Apply(); err != nil {
		t.Errorf("what need not be written: %v", err)
	}
}

func TestCPUs(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-1": 2, "0-3,8,10-11": 7, "": 0, "x": 0, "3-1": 0, "0-3,": 0} {
		if got := countCPUs(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
	if CPUs() < 1 {
		t.Error("no CPUs")
	}
}
