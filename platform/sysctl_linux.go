package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Conntrack is settings of the kernel's conntrack table, those that kube-proxy sets. A zero field leaves a setting
// unchanged.
type Conntrack struct {
	Max int // flows in all network namespaces, see ConntrackMax; only the host's own namespace may set it

	// Timeouts of idle flows, rounded up to whole seconds.
	TCPEstablished, TCPCloseWait time.Duration
	UDP, UDPStream               time.Duration // UDPStream: once both sides have sent more than one datagram

	TCPBeLiberal bool // only RST packets outside the window are INVALID

	root string // for tests; "" = the host
}

// flowsPerBucket is the number of flows for each bucket of the kernel's hash table when the table is full: kube-proxy's
// value, and the kernel's before 5.15.
const flowsPerBucket = 4

// maxScaled limits the size by the number of CPUs: a million flows take some 300 MB. kube-proxy's value since 1.36.
const maxScaled = 1 << 20

// ConntrackMax returns Conntrack.Max by kube-proxy's rule: perCPU flows for each CPU, at most 1,048,576, but at least
// least. Zero perCPU leaves the setting unchanged, whatever least is.
func ConntrackMax(perCPU, least, cpus int) int {
	if perCPU <= 0 {
		return 0
	}
	return max(min(perCPU*cpus, maxScaled), least)
}

// Apply writes the settings that differ. Unlike kube-proxy it never makes the table smaller: an operator may have
// enlarged it. Changed describes each setting that was written. A setting that cannot be written does not prevent
// others; err joins all errors, and wraps EROFS where /proc/sys or /sys is read-only, as in an unprivileged container.
func (c Conntrack) Apply() (changed []string, err error) {
	var errs []error
	for _, s := range c.settings() {
		switch was, err := s.apply(c.root); {
		case err != nil:
			errs = append(errs, err)
		case was >= 0:
			changed = append(changed, fmt.Sprintf("%s: %d, was %d", s.file, s.value, was))
		}
	}
	return changed, errors.Join(errs...)
}

// setting is a file of /proc/sys or /sys that holds a number.
type setting struct {
	file  string
	value int
	least bool // a larger value is left
}

func (c Conntrack) settings() []setting {
	const dir = netfilter
	var out []setting
	if c.Max > 0 {
		out = append(out, setting{file: dir + "max", value: c.Max, least: true},
			setting{file: "/sys/module/nf_conntrack/parameters/hashsize", value: c.Max / flowsPerBucket, least: true})
	}
	for _, t := range []struct {
		name    string
		timeout time.Duration
	}{
		{"tcp_timeout_established", c.TCPEstablished},
		{"tcp_timeout_close_wait", c.TCPCloseWait},
		{"udp_timeout", c.UDP},
		{"udp_timeout_stream", c.UDPStream},
	} {
		if t.timeout > 0 {
			out = append(out, setting{file: dir + t.name, value: int((t.timeout + time.Second - 1) / time.Second)})
		}
	}
	if c.TCPBeLiberal {
		out = append(out, setting{file: dir + "tcp_be_liberal", value: 1})
	}
	return out
}

// apply returns the value that was overwritten, -1 if none was.
func (s setting) apply(root string) (was int, err error) {
	name := filepath.Join(root, s.file)
	text, err := os.ReadFile(name)
	if err == nil {
		was, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err == nil {
		if was == s.value || s.least && was > s.value {
			return -1, nil
		}
		err = os.WriteFile(name, strconv.AppendInt(nil, int64(s.value), 10), 0)
	}
	if err != nil {
		return 0, s.failed(err)
	}
	return was, nil
}

// failed adds advice to an error.
func (s setting) failed(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // it names the file again
	}
	advice := ""
	switch {
	case errors.Is(err, syscall.EROFS):
		advice = ": set it on the host, or mount it writable"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported):
		advice = ": it takes root in the host's own network namespace"
	case errors.Is(err, fs.ErrNotExist):
		advice = ": the kernel has no connection table; load the module nf_conntrack"
	}
	return fmt.Errorf("set %s to %d: %w%s", s.file, s.value, err, advice)
}
