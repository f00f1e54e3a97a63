package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/netfilter"
)

// lockPath is the lock of iptables-legacy, which every program that changes its rules takes.
func lockPath() string {
	if path := os.Getenv("XTABLES_LOCKFILE"); path != "" {
		return path
	}
	return "/run/xtables.lock"
}

// readLock looks twice: a lock that is held each time is held for long.
func readLock(ctx context.Context) (Lock, error) {
	first, err := lockHolder()
	if err != nil || first.By == "" {
		return first, err
	}
	if err := backoff.Sleep(ctx, interval); err != nil {
		return first, err
	}
	again, err := lockHolder()
	if again.By == first.By {
		again.Held = interval
	}
	return again, err
}

func lockHolder() (Lock, error) {
	l := Lock{Path: lockPath()}
	file, err := os.Stat(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return l, err
	}
	stat := file.Sys().(*syscall.Stat_t)
	device := fmt.Sprintf("%02x:%02x", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	for _, held := range parseLocks(string(text)) {
		switch {
		case held.inode != stat.Ino || held.device != device:
		case held.waiting:
			l.Waiting++
		default:
			l.By = fmt.Sprintf("%s (pid %d)", processName(filepath.Join("/proc", fmt.Sprint(held.pid))), held.pid)
		}
	}
	if l.By == "" && !seesAllProcesses() && isHeld(l.Path) {
		l.By = "a process that is not visible here"
	}
	return l, nil
}

// seesAllProcesses tells whether this process is in the first process namespace, whose /proc/locks has all locks.
func seesAllProcesses() bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO of linux/proc_ns.h
	name, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && name == first
}

// isHeld tries to share a lock, for an instant, which fails while another holds it.
func isHeld(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// answerLimit is less than systemLimit, so that a command which hangs is known to.
const answerLimit = systemLimit - 200*time.Millisecond

// runIPTables has iptables list one chain, and waits for the lock for a second.
func runIPTables(ctx context.Context) (IPTables, error) {
	ctx, end := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %s", answerLimit))
	defer end()
	began := time.Now()
	_, err := platform.Run(ctx, "iptables", []string{"-w", "1", "-t", "nat", "-S", "PREROUTING"}, nil)
	if errors.Is(err, exec.ErrNotFound) || err != nil && strings.Contains(err.Error(), "you must be root") {
		return IPTables{}, err
	}
	return IPTables{Failed: err, Took: time.Since(began)}, nil
}

// readRules reads the rules of all programs. Of tables and chains of our own it is enough that they are there.
func readRules(ctx context.Context) (*netfilter.Ruleset, error) {
	r := netfilter.Reader{
		SkipTable: func(_, table string) bool { return isOwnTable(table) },
		SkipChain: func(chain string) bool { return isPortaldName(chain) || strings.HasPrefix(chain, "KUBE-") },
	}
	ctx, end := context.WithTimeout(ctx, answerLimit) // so that what was read in time is known
	defer end()
	return r.Read(ctx), nil
}
