package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// connectHooks are where a load balancer can change the destination of a socket.
var connectHooks = []struct {
	name string
	kind uint32
}{
	{"connect4", unix.BPF_CGROUP_INET4_CONNECT}, {"connect6", unix.BPF_CGROUP_INET6_CONNECT},
	{"sendmsg4", unix.BPF_CGROUP_UDP4_SENDMSG}, {"sendmsg6", unix.BPF_CGROUP_UDP6_SENDMSG},
}

// Where a program is attached may be mounted for others alone, such as Cilium's agent.
var errNoUnifiedCgroup = errors.New("control groups v2, to which BPF programs are attached, are not mounted")

// readConnects lists the programs that run for sockets of this process: those at the root of the control groups, which
// are every pod's, and of its own. Their names need CAP_SYS_ADMIN.
func readConnects(context.Context) ([]ConnectProgram, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	at := unifiedCgroup(string(mounts))
	if at == "" {
		return nil, errNoUnifiedCgroup
	}
	dir, err := os.Open(at)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var out []ConnectProgram
	for _, hook := range connectHooks {
		ids, err := programsAt(dir, hook.kind)
		switch {
		case errors.Is(err, unix.EINVAL): // a kernel without this hook
			continue
		case err != nil:
			return nil, fmt.Errorf("list the BPF programs at %s of %s (which needs CAP_NET_ADMIN, and a seccomp profile that "+
				"allows bpf: run portald doctor on the node itself): %w", hook.name, at, err)
		}
		for _, id := range ids {
			out = append(out, ConnectProgram{hook.name, programName(id)})
		}
	}
	return out, nil
}

// unifiedCgroup is where the control groups of version 2 are mounted, by the text of mountinfo; empty: nowhere.
func unifiedCgroup(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4]
		}
	}
	return ""
}

// mostPrograms bounds those at one hook.
const mostPrograms = 64

// programsAt lists the programs that are in effect at a hook of a control group, those of its parents too.
func programsAt(dir *os.File, kind uint32) ([]uint32, error) {
	ids := make([]uint32, mostPrograms)
	query := struct { // union bpf_attr, query
		target, kind, flags, attachFlags uint32
		ids                              *uint32
		count, _                         uint32
	}{target: uint32(dir.Fd()), kind: kind, flags: unix.BPF_F_QUERY_EFFECTIVE, ids: &ids[0], count: mostPrograms}
	if _, err := bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&query), unsafe.Sizeof(query)); err != nil && err != unix.ENOSPC {
		return nil, err
	}
	return ids[:min(query.count, mostPrograms)], nil
}

// programName is the first 15 bytes of a program's name; empty: it has none, or this process may not ask.
func programName(id uint32) string {
	open := struct{ id, next, flags, _ uint32 }{id: id}
	fd, err := bpf(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&open), unsafe.Sizeof(open))
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var info struct { // struct bpf_prog_info, as far as it is read
		_    [64]byte
		name [unix.BPF_OBJ_NAME_LEN]byte
	}
	ask := struct { // union bpf_attr, info
		fd, size uint32
		info     unsafe.Pointer
	}{uint32(fd), uint32(unsafe.Sizeof(info)), unsafe.Pointer(&info)}
	if _, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&ask), unsafe.Sizeof(ask)); err != nil {
		return ""
	}
	name, _, _ := bytes.Cut(info.name[:], []byte{0})
	return string(name)
}

// bpf is the system call. The library for it would add 2 MB to the program for these three calls.
func bpf(command uintptr, attributes unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attributes), size)
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}
