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

// Conntrack is what the kernel's connection table is to be set to, as kube-proxy sets it. A zero field leaves that
// setting as it is.
type Conntrack struct {
	Max int // flows of all network namespaces, see ConntrackMax; only the host's own namespace may set it

	// How long a silent flow is kept; whole seconds, rounded up.
	TCPEstablished, TCPCloseWait time.Duration
	UDP, UDPStream               time.Duration // before and after both sides have sent more than once

	TCPBeLiberal bool // only a reset outside the window makes a packet invalid

	root string // for tests; "" = the host
}

// flowsPerBucket is how many flows a bucket of the kernel's hash table may have to hold, when the table is full:
// kube-proxy's, and what the kernel chose before 5.15.
const flowsPerBucket = 4

// maxScaled bounds what the number of CPUs may ask for: a million flows take some 300 MB. kube-proxy's, since 1.36.
const maxScaled = 1 << 20

// ConntrackMax is Conntrack.Max by kube-proxy's rule: so many flows per CPU, at most 1,048,576, but never fewer than
// least. Zero per CPU leaves the setting alone, whatever least is.
func ConntrackMax(perCPU, least, cpus int) int {
	if perCPU <= 0 {
		return 0
	}
	return max(min(perCPU*cpus, maxScaled), least)
}

// Apply writes what differs, also where the present value is the higher one; but the size of the table only grows, other
// than with kube-proxy: who made it larger had a reason. Changed says what was
// written, one phrase each. What cannot be written does not keep the rest from being; err joins all of it, and wraps
// EROFS where /proc/sys or /sys is read-only, as in a container without privileges.
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

// setting is a file of the kernel's that holds one number.
type setting struct {
	file  string
	value int
	least bool // more will do
}

func (c Conntrack) settings() []setting {
	const dir = "/proc/sys/net/netfilter/nf_conntrack_"
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

// apply returns the value that was overwritten, -1 when there was no need to.
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

// failed says what to do about it.
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
