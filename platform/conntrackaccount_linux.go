package platform

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const netfilter = "/proc/sys/net/netfilter/nf_conntrack_"

// FlowAccounting holds what the kernel counts for flows that begin from now on, in the network namespace of the
// process.
type FlowAccounting struct {
	Counted bool // packets and bytes
	Timed   bool // when they began and ended
	// Changed describes each setting that was changed.
	Changed []string
	undo    []setting
	root    string
}

// AccountFlows turns on events, counters and times of flows. A setting that cannot be written does not prevent the
// others; err joins all errors, and wraps EROFS where /proc/sys is read-only, as in an unprivileged container.
func AccountFlows() (*FlowAccounting, error) { return accountFlows("") }

func accountFlows(root string) (*FlowAccounting, error) {
	a := &FlowAccounting{root: root}
	var errs []error
	turnOn := func(name string) bool {
		s := setting{file: netfilter + name, value: 1, least: true} // 2, of the events: for who subscribed
		was, err := s.apply(root)
		errs = append(errs, err)
		if err == nil && was >= 0 {
			a.Changed = append(a.Changed, fmt.Sprintf("%s: %d, was %d", s.file, s.value, was))
			a.undo = append(a.undo, setting{file: s.file, value: was})
		}
		return err == nil
	}
	turnOn("events")
	a.Counted, a.Timed = turnOn("acct"), turnOn("timestamp")
	return a, errors.Join(errs...)
}

// Undo turns off again what AccountFlows turned on.
func (a *FlowAccounting) Undo() error {
	var errs []error
	for _, s := range a.undo {
		_, err := s.apply(a.root)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// FlowTimeout is how long the kernel keeps an idle flow of a kind, such as tcp_timeout_close or udp_timeout.
func FlowTimeout(kind string) (time.Duration, error) {
	text, err := os.ReadFile(netfilter + kind)
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return time.Duration(seconds) * time.Second, err
}
