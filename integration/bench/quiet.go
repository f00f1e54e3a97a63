//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// What a quiet machine may do besides: shares of all its CPU time. More than that changes ratios, too: who waits for a
// CPU is not who uses it.
const (
	mostBusy   = 0.05 // in a second before the run
	mostStolen = 0.01 // by other virtual machines, during the run
)

// cpuTimes are sums over all CPUs since the boot, in ticks.
type cpuTimes struct{ all, idle, stolen uint64 }

// readCPUTimes reads the first line of /proc/stat, whose fields proc(5) lists: user, nice, system, idle, iowait, irq,
// softirq, steal; those of guests are in user already.
func readCPUTimes() (cpuTimes, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{}, err
	}
	return parseCPUTimes(string(text))
}

func parseCPUTimes(text string) (t cpuTimes, err error) {
	line, _, _ := strings.Cut(text, "\n")
	var user, nice, system, idle, iowait, irq, softirq, steal uint64
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq,
		&steal); err != nil {
		return t, fmt.Errorf("read /proc/stat: %q: %w", line, err)
	}
	t = cpuTimes{idle: idle + iowait, stolen: steal}
	t.all = user + nice + system + t.idle + irq + softirq + steal
	return t, nil
}

// share is that of a part, from 0 to 1.
func share(part, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// calm watches whether the machine is quiet.
type calm struct {
	busy  float64 // before the run
	began cpuTimes
}

// watchCalm looks at the machine for a second.
func watchCalm() (calm, error) {
	before, err := readCPUTimes()
	if err != nil {
		return calm{}, err
	}
	time.Sleep(time.Second)
	now, err := readCPUTimes()
	all := now.all - before.all
	return calm{busy: share(all-(now.idle-before.idle), all), began: now}, err
}

// disturbance says why the machine was not quiet from then to now; empty: it was.
func (c calm) disturbance(now cpuTimes) string {
	stolen := share(now.stolen-c.began.stolen, now.all-c.began.all)
	switch {
	case c.busy > mostBusy:
		return fmt.Sprintf("other programs used %.0f %% of its CPUs before the run", 100*c.busy)
	case stolen > mostStolen:
		return fmt.Sprintf("other virtual machines took %.1f %% of its CPU time during the run (steal)", 100*stolen)
	}
	return ""
}
