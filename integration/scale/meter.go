//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/portald/portald/integration/topology"
)

// cpu is the time that a process has used, with children that have ended, in ticks of 10 ms.
func cpu(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat sums utime, stime, cutime and cstime of proc_pid_stat(5).
func parseStat(text string) (time.Duration, error) {
	const first, last, tick = 14 - 3, 17 - 3, 10 * time.Millisecond // the name, field 2, may have spaces
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= last {
		return 0, fmt.Errorf("stat of a process has %d fields after its name", len(fields))
	}
	var ticks int
	for _, f := range fields[first : last+1] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// memory is the resident set size of a process in kB, and the highest that it was.
func memory(pid int) (now, most int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		switch {
		case len(f) < 2:
		case f[0] == "VmRSS:":
			now, err = strconv.Atoi(f[1])
		case f[0] == "VmHWM:":
			most, err = strconv.Atoi(f[1])
		}
	}
	return now, most, err
}

// received returns the bytes that a node has received from the control plane's host, which only the proxy talks to.
func received(node *topology.Host) (n uint64, err error) {
	err = node.Do(func() error {
		link, err := netlink.LinkByName("control")
		if err == nil {
			n = link.Attrs().Statistics.RxBytes
		}
		return err
	})
	return n, err
}
