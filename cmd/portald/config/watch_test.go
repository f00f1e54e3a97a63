package config

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// following is a daemon that follows its file.
type following struct {
	*testing.T
	flags   *Flags
	applied chan Settings
	log     *logtest.Hook
}

func follow(t *testing.T, path string) *following {
	t.Helper()
	log, hook := logtest.NewNullLogger()
	f := NewFlags()
	check(t, allFlags(f).Parse([]string{"--config", path, "--manifests=x"}))
	running, _, err := f.Complete()
	check(t, err)
	w := &following{t, f, make(chan Settings, 100), hook}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Follow(ctx, running, log, func(s Settings) { w.applied <- s }) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// drain waits for settings with this drain time, the only ones to come.
func (w *following) drain(want time.Duration) {
	w.Helper()
	select {
	case s := <-w.applied:
		if s.Drain != want {
			w.Errorf("drain %v, want %v", s.Drain, want)
		}
	case <-time.After(2 * rescanPeriod):
		w.Fatalf("nothing came, want drain %v", want)
	}
}

// said waits until something with this text was said at a level, and tells how often.
func (w *following) said(level logrus.Level, text string) int {
	w.Helper()
	for end := time.Now().Add(2 * rescanPeriod); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		n := 0
		for _, e := range w.log.AllEntries() {
			if e.Level == level && strings.Contains(e.Message, text) {
				n++
			}
		}
		if n > 0 {
			return n
		}
	}
	w.Fatalf("nobody said %q", text)
	return 0
}

func drainOf(t string) string { return portaldHead + "drainTimeout: " + t + "\n" }

func TestFollowWrites(t *testing.T) {
	path := inFile(t, drainOf("1s"))
	w := follow(t, path)
	check(t, os.WriteFile(path, []byte(drainOf("2s")), 0o644))
	w.drain(2 * time.Second)
	w.said(logrus.InfoLevel, "drainTimeout changed from 1s to 2s")

	// A new file in its place, as editors do it.
	check(t, os.WriteFile(path+"~", []byte(drainOf("3s")), 0o644))
	check(t, os.Rename(path+"~", path))
	w.drain(3 * time.Second)

	// Gone for a while.
	check(t, os.Remove(path))
	w.said(logrus.WarnLevel, "Cannot read the configuration file")
	check(t, os.WriteFile(path, []byte(drainOf("4s")), 0o644))
	w.drain(4 * time.Second)
}

// A mounted ConfigMap changes by the swap of a link to the folder with its files.
func TestFollowConfigMap(t *testing.T) {
	if runtime.GOOS == windows {
		t.Skip("Wine does not rename links")
	}
	dir := t.TempDir()
	version := func(name, text string) {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, name, "config.yaml"), []byte(text), 0o644))
		check(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		check(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", drainOf("1s"))
	path := filepath.Join(dir, "config.yaml")
	check(t, os.Symlink(filepath.Join("..data", "config.yaml"), path))
	w := follow(t, path)
	version("..2", drainOf("2s"))
	w.drain(2 * time.Second)
	version("..3", drainOf("3s"))
	w.drain(3 * time.Second)
}

// A file that cannot be used changes nothing; neither does one that says the same in other words.
func TestFollowBadFile(t *testing.T) {
	path := inFile(t, drainOf("1s"))
	w := follow(t, path)
	check(t, os.WriteFile(path, []byte(drainOf("soon")+"what: 1\n"), 0o644))
	w.said(logrus.ErrorLevel, "keeping the running configuration")
	w.said(logrus.ErrorLevel, "what: there is no such field")
	w.said(logrus.ErrorLevel, "drainTimeout: soon: must be a time")
	if w.flags.Refused() != 1 {
		t.Error("no file counts as refused")
	}
	check(t, os.WriteFile(path, []byte("# the same\n"+drainOf("1000ms")), 0o644))
	check(t, os.WriteFile(path, []byte(drainOf("5s")), 0o644))
	w.drain(5 * time.Second)
	if w.flags.Refused() != 0 {
		t.Error("the file still counts as refused")
	}
}

// A change that waits for the next start is logged once.
func TestFollowSaysWhatWaits(t *testing.T) {
	path := inFile(t, drainOf("1s"))
	w := follow(t, path)
	const waits = "udpMaxSessions changed from 4096 to 9: takes effect at the next start"
	check(t, os.WriteFile(path, []byte(drainOf("1s")+"udpMaxSessions: 9\n"), 0o644))
	w.said(logrus.WarnLevel, waits)
	check(t, os.WriteFile(path, []byte(drainOf("2s")+"udpMaxSessions: 9\n"), 0o644))
	w.drain(2 * time.Second)
	if n := w.said(logrus.WarnLevel, waits); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// A file that changed between its reading and its watching is read again.
func TestFollowMissesNothing(t *testing.T) {
	path := inFile(t, drainOf("1s"))
	f := NewFlags()
	check(t, allFlags(f).Parse([]string{"--config", path, "--manifests=x"}))
	running, _, err := f.Complete()
	check(t, err)
	check(t, os.WriteFile(path, []byte(drainOf("2s")), 0o644))
	ctx, stop := context.WithCancel(t.Context())
	log, _ := logtest.NewNullLogger()
	check(t, f.Follow(ctx, running, log, func(s Settings) {
		if s.Drain != 2*time.Second {
			t.Errorf("drain %v", s.Drain)
		}
		stop()
	}))
}

func TestFollowNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	check(t, NewFlags().Follow(ctx, nil, logrus.New(), nil))
}
