package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readProcess reads what the daemon has open and may have.
func readProcess(pid int) (p Process, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	limits, err := os.ReadFile(filepath.Join(dir, "limits"))
	if err != nil {
		return p, err
	}
	if p.Limit, err = parseOpenFiles(string(limits)); err != nil {
		return p, err
	}
	p.Sockets = map[uint64]struct{}{}
	err = eachDescriptor(dir, func(target string) {
		p.Descriptors++
		if inode, ok := socketInode(target); ok {
			p.Sockets[inode] = struct{}{}
		}
	})
	p.Memory = readMemory(dir)
	return p, err
}

// eachDescriptor calls each with the target of every descriptor of a process.
func eachDescriptor(dir string, each func(target string)) error {
	list, err := os.ReadDir(filepath.Join(dir, "fd"))
	for _, e := range list {
		if target, err := os.Readlink(filepath.Join(dir, "fd", e.Name())); err == nil { // else it was closed
			each(target)
		}
	}
	return err
}

func socketInode(target string) (uint64, bool) {
	number, ok := strings.CutPrefix(target, "socket:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, ok && err == nil
}

// readMemory reads the process's control group; where there is none, no limit is known.
func readMemory(dir string) (m Memory) {
	groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
	v2, v1 := parseCgroups(string(groups))
	const root = "/sys/fs/cgroup"
	if m, ok := readMemoryV2(filepath.Join(root, v2)); ok {
		return m
	}
	m, _ = readMemoryV1(filepath.Join(root, "memory", v1))
	return m
}

func readMemoryV2(dir string) (m Memory, ok bool) {
	limit, err := readNumber(filepath.Join(dir, "memory.max")) // "max" is none
	used, err2 := readNumber(filepath.Join(dir, "memory.current"))
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	events, _ := os.ReadFile(filepath.Join(dir, "memory.events"))
	return Memory{
		Used: int64(used) - field(string(stat), "inactive_file"), Limit: int64(limit),
		Kills: int(field(string(events), "oom_kill")),
	}, err == nil && err2 == nil
}

// noLimit stands for no limit in cgroups of version 1, and so does any larger number.
const noLimit = 1 << 60

func readMemoryV1(dir string) (m Memory, ok bool) {
	limit, err := readNumber(filepath.Join(dir, "memory.limit_in_bytes"))
	used, err2 := readNumber(filepath.Join(dir, "memory.usage_in_bytes"))
	if err != nil || err2 != nil || limit >= noLimit {
		return Memory{}, false
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	oom, _ := os.ReadFile(filepath.Join(dir, "memory.oom_control"))
	return Memory{
		Used: int64(used) - field(string(stat), "total_inactive_file"), Limit: int64(limit),
		Kills: int(field(string(oom), "oom_kill")),
	}, true
}

// processes calls each for every process, until ctx ends.
func processes(ctx context.Context, each func(pid int, dir string)) error {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			each(pid, filepath.Join("/proc", e.Name()))
		}
	}
	return nil
}

// findKubeProxies finds processes of that name in this network namespace.
func findKubeProxies(ctx context.Context) (pids []int, err error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	err = processes(ctx, func(pid int, dir string) {
		if processName(dir) != "kube-proxy" {
			return
		}
		if theirs, err := os.Readlink(filepath.Join(dir, "ns/net")); err != nil || theirs == own {
			pids = append(pids, pid)
		}
	})
	return pids, err
}

func processName(dir string) string {
	name, _ := os.ReadFile(filepath.Join(dir, "comm")) // it may have ended
	return strings.TrimSpace(string(name))
}

// readListeners lists the sockets that wait at some ports, and the processes that have them as far as they may be seen.
func readListeners(ctx context.Context, ports map[uint16]bool) (out []Listener, err error) {
	for _, protocol := range []string{"tcp", "udp"} {
		state := map[string]string{"tcp": tcpListen, "udp": udpBound}[protocol]
		for _, suffix := range []string{"", "6"} {
			err := readSocketFile(protocol+suffix, state, func(l Listener) {
				if l.Protocol = protocol; ports[l.Address.Port()] {
					out = append(out, l)
				}
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // no IPv6
				return nil, err
			}
		}
	}
	return out, nameListeners(ctx, out)
}

func readSocketFile(name, state string, each func(Listener)) error {
	file, err := os.Open(filepath.Join("/proc/net", name))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := parseSockets(file, state, each); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil
}

// nameListeners finds the processes of sockets.
func nameListeners(ctx context.Context, list []Listener) error {
	byInode := map[uint64]*Listener{}
	for i := range list {
		byInode[list[i].Inode] = &list[i]
	}
	if len(list) == 0 {
		return nil
	}
	return processes(ctx, func(pid int, dir string) {
		_ = eachDescriptor(dir, func(target string) { // descriptors of other users may be hidden
			if inode, ok := socketInode(target); ok && byInode[inode] != nil {
				byInode[inode].PID, byInode[inode].Process = pid, processName(dir)
			}
		})
	})
}
