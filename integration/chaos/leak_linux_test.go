package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// holdings are what portald has of its own, and of the host, while nobody is there.
type holdings struct {
	descriptors, goroutines, files int

	rules []string // lines, without what they have counted
}

func (h holdings) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d files, %d lines of rules", h.descriptors, h.goroutines, h.files,
		len(h.rules))
}

var counted = regexp.MustCompile(`counter packets \d+ bytes \d+ `)

// has counts them.
func (w *world) has() (h holdings) {
	_, page, err := w.Get("127.0.0.1:10249", "/metrics")
	if err != nil {
		w.Error(err)
	}
	h.goroutines = int(w.daemon.MetricIn(page, "go_goroutines"))
	open := w.descriptors()
	files, err := os.ReadDir(w.Dir)
	w.try("list the files", err)
	h.descriptors, h.files = len(open), len(files)
	h.rules = slices.Sorted(strings.Lines(counted.ReplaceAllString(w.Ruleset(), "")))
	return h
}

// descriptors are what portald has open.
func (w *world) descriptors() (all []string) {
	at := fmt.Sprintf("/proc/%d/fd", w.daemon.Cmd.Process.Pid)
	open, err := os.ReadDir(at)
	w.try("list the descriptors", err)
	for _, fd := range open {
		what, _ := os.Readlink(filepath.Join(at, fd.Name())) // it may be closed by now
		all = append(all, fd.Name()+": "+what)
	}
	return all
}

// slack is how much may be there in the end: 5 % more. Rules for proxy ports are merged where their numbers are
// neighbours, which depends on chance.
func slack(before int) int { return before + before/20 }

func (h holdings) exceed(before holdings) bool {
	return h.descriptors > slack(before.descriptors) || h.goroutines > slack(before.goroutines) ||
		len(h.rules) > slack(len(before.rules)) || h.files > before.files
}

// settle brings all back to the usual state.
func (w *world) settle() {
	w.change(func(s *state) {
		number := s.number
		*s = usual()
		s.number = number
	})
	w.awaitServed()
	w.await("the owner of the address", func() bool {
		return w.isOwner(w.moving, 80, left) && w.isOwner(w.Node.IPv4.String(), w.movingPort, left)
	})
}

// leakPatience is for what clients have left without an end.
const leakPatience = 2 * udpTimeout

// compare fails the test if something is left of the faults once all is settled.
func (w *world) compare(before holdings) {
	now := w.has()
	for end := time.Now().Add(leakPatience); now.exceed(before) && time.Now().Before(end); now = w.has() {
		time.Sleep(100 * time.Millisecond)
	}
	w.Logf("%s: before: %s; now: %s", w.mode.Name, before, now)
	if now.exceed(before) {
		w.Logf("descriptors: %s", strings.Join(w.descriptors(), ", "))
		w.Errorf("something is left of the faults; rules, - before, + now:\n%s", cmp.Diff(before.rules, now.rules))
	}
}
