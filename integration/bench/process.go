//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running proxy.
type process struct {
	pid   int
	ended chan struct{}
}

// start starts a command that leads a process group, as those of a topology.Host do, and waits for its end.
func start(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // the exit code does not matter for the measurement
	}()
	return p, nil
}

// stop sends SIGTERM, and kills the process group after five seconds.
func (p *process) stop() {
	_ = unix.Kill(p.pid, unix.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = unix.Kill(-p.pid, unix.SIGKILL)
		<-p.ended
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// group lists the living processes of a process group.
func group(leader int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if pgrp, err := unix.Getpgid(pid); err == nil && pgrp == leader {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// processes lists those of the proxy; under Wine also those that stand for the system.
func (b *bed) processes() ([]int, error) {
	if b.system != nil {
		return b.system.Prefix.Processes()
	}
	return group(b.proxy.pid)
}

// cpu is the CPU time of the proxy's processes with all threads, also ended ones, in nanosecond resolution.
func (b *bed) cpu() (time.Duration, error) {
	if b.proxy == nil {
		return 0, nil
	}
	pids, err := b.processes()
	if err != nil {
		return 0, err
	}
	if len(pids) == 0 {
		return 0, fmt.Errorf("%s has ended", b.name)
	}
	var sum time.Duration
	for _, pid := range pids {
		var ts unix.Timespec
		err := unix.ClockGettime(cpuClock(pid), &ts)
		if err != nil && pid != b.proxy.pid {
			continue // a command of the proxy that has ended since it was listed
		}
		if err != nil {
			return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// cpuClock names the CPU-time clock of another process: clock_getcpuclockid(3).
func cpuClock(pid int) int32 {
	const schedulerTime = 2 // CPUCLOCK_SCHED
	return int32(^pid<<3 | schedulerTime)
}

// footprint is the memory and the descriptors of the proxy's processes.
type footprint struct {
	bytes, descriptors int
}

// footprint sums the proportional set size, which counts a page shared by n processes as 1/n, and open descriptors.
func (b *bed) footprint() (footprint, error) {
	var sum footprint
	pids, err := b.processes()
	if err != nil {
		return sum, err
	}
	for _, pid := range pids {
		kb, err := pss(pid)
		fds, err2 := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		err = errors.Join(err, err2)
		if err != nil && pid != b.proxy.pid {
			continue // as in cpu
		}
		if err != nil {
			return sum, err
		}
		sum.bytes += kb << 10
		sum.descriptors += len(fds)
	}
	return sum, nil
}

// pss is the proportional set size of a process in kB.
func pss(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if rest, ok := strings.CutPrefix(string(line), "Pss:"); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
		}
	}
	return 0, fmt.Errorf("no Pss of process %d", pid)
}
