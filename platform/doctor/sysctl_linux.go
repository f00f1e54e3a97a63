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
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/backoff"
)

func readSysctls() map[string]Fact[string] {
	out := map[string]Fact[string]{}
	for _, name := range sysctls() {
		text, err := os.ReadFile(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
		out[name] = Fact[string]{string(text), err}
	}
	return out
}

func readKernel(context.Context) (k Kernel, err error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return k, fmt.Errorf("ask for the kernel's version: %w", err)
	}
	k.Release = unix.ByteSliceToString(u.Release[:])
	if _, err := fmt.Sscanf(k.Release, "%d.%d", &k.Major, &k.Minor); err != nil {
		return k, fmt.Errorf("the kernel's version %q: %w", k.Release, err)
	}
	return k, nil
}

// readConntrack reads the counters twice.
func readConntrack(ctx context.Context) (c Conntrack, err error) {
	const dir = "/proc/sys/net/netfilter/nf_conntrack_"
	for file, to := range map[string]*int{"count": &c.Count, "max": &c.Max, "buckets": &c.Buckets} {
		if *to, err = readNumber(dir + file); err != nil {
			return c, noConntrack(err)
		}
	}
	if c.Stats, err = readConntrackStats(); err != nil {
		return c, err
	}
	if err := backoff.Sleep(ctx, interval); err != nil {
		return c, err
	}
	c.Later, err = readConntrackStats()
	return c, err
}

func noConntrack(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the kernel has no conntrack table: the module nf_conntrack is not loaded")
	}
	return err
}

func readConntrackStats() (ConntrackStats, error) {
	text, err := os.ReadFile("/proc/net/stat/nf_conntrack")
	if err != nil {
		return ConntrackStats{}, err
	}
	return parseConntrackStats(string(text))
}

func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func readIPVS(context.Context) (IPVS, error) {
	text, err := os.ReadFile("/proc/net/ip_vs")
	if errors.Is(err, fs.ErrNotExist) {
		return IPVS{}, nil
	}
	return IPVS{Loaded: err == nil, Servers: parseServers(string(text))}, err
}

func readSockets(context.Context) (Sockets, error) {
	v4, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return Sockets{}, err
	}
	v6, _ := os.ReadFile("/proc/net/sockstat6") // a kernel without IPv6 has none
	return parseSockstat(string(v4) + string(v6)), nil
}

// readClock asks the kernel; it changes nothing, so it needs no rights.
func readClock(context.Context) (Clock, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return Clock{}, fmt.Errorf("ask for the state of the clock: %w", err)
	}
	return Clock{
		Synchronized: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
		MaxError:     time.Duration(t.Maxerror) * time.Microsecond,
	}, nil
}

func sysctls() []string {
	return []string{ipForward4, ipForward6, routeLocalnet, bridgeNF4, bridgeNF6, earlyDemux, localRange, reservedPorts,
		pipePages, openFiles}
}
