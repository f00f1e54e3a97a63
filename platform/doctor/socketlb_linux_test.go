package doctor

import (
	"errors"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/netnstest"
)

// A program that another attached is listed, with its name, for control groups below it too.
func TestConnectPrograms(t *testing.T) {
	const name = "cil_sock4_conne"
	before, err := readConnects(t.Context())
	if errors.Is(err, errNoUnifiedCgroup) || errors.Is(err, unix.EPERM) {
		netnstest.Missing(t, "%v", err)
	}
	if err != nil || slices.Contains(before, ConnectProgram{"connect4", name}) {
		t.Fatal(before, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	parent, err := os.MkdirTemp(unifiedCgroup(string(mounts)), "portald-test-")
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		netnstest.Missing(t, "no control group can be made: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(parent)
	child, err := os.MkdirTemp(parent, "child-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(child)
	attach(t, parent, name)
	dir, err := os.Open(child)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	ids, err := programsAt(dir, unix.BPF_CGROUP_INET4_CONNECT)
	if err != nil || len(ids) == 0 || programName(ids[len(ids)-1]) != name {
		t.Errorf("%v, %v", ids, err)
	}
	if ids, err := programsAt(dir, unix.BPF_CGROUP_INET6_CONNECT); err != nil || len(ids) > 0 {
		t.Errorf("at another hook: %v, %v", ids, err)
	}
}

// attach has a program that allows everything run where sockets of a control group connect.
func attach(t *testing.T, cgroup, name string) {
	t.Helper()
	code := []uint64{0x00000001_00000000 | 0xb7, 0x95} // r0 = 1; exit
	license := []byte("GPL\x00")
	load := struct { // union bpf_attr, of BPF_PROG_LOAD
		kind, count   uint32
		code          *uint64
		license       *byte
		level, size   uint32
		log           uint64
		kernel, flags uint32
		name          [unix.BPF_OBJ_NAME_LEN]byte
		device, hook  uint32
	}{kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, count: uint32(len(code)), code: &code[0], license: &license[0],
		hook: unix.BPF_CGROUP_INET4_CONNECT}
	copy(load.name[:], name)
	program, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		netnstest.Missing(t, "no BPF program can be loaded: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(program)
	dir, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	at := struct{ cgroup, program, hook, flags, replaced, _ uint32 }{uint32(dir.Fd()), uint32(program),
		unix.BPF_CGROUP_INET4_CONNECT, unix.BPF_F_ALLOW_MULTI, 0, 0}
	if _, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&at), unsafe.Sizeof(at)); err != nil {
		t.Fatal(err)
	}
}

func TestUnifiedCgroup(t *testing.T) {
	for _, tc := range []struct{ mountinfo, want string }{
		{"", ""},
		{"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup"},
		{"31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
			"32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
	} {
		if got := unifiedCgroup(tc.mountinfo); got != tc.want {
			t.Errorf("%q: %q", tc.mountinfo, got)
		}
	}
}
