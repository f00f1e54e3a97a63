package config

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
)

// Times of following a file.
const (
	settleTime   = 50 * time.Millisecond // quiet after which a change is taken to be complete
	rescanPeriod = 5 * time.Second       // the file is looked at, whatever the host notified
)

// Follow follows the file of --config until ctx ends, and has apply told of settings that changed and take effect at
// once. Changes that wait for the next start are said, once. A file that cannot be used is said too, and all stays as it is.
// Without a file it only waits.
func (f *Flags) Follow(ctx context.Context, running *Config, log logrus.FieldLogger, apply func(Settings)) error {
	if f.File == "" {
		<-ctx.Done()
		return nil
	}
	last := running
	var waiting []string
	Watch(ctx, f.File, running.text, log, func() {
		next := f.again(log)
		if next == nil {
			return
		}
		since, waits := last.Reload(next), running.Reload(next).Restart
		if len(since.Applied) > 0 {
			apply(since.Apply)
		}
		for _, line := range since.Applied {
			log.Info(line)
		}
		for _, line := range waits {
			if !slices.Contains(waiting, line) {
				log.Warn(line)
			}
		}
		last, waiting = next, waits
	})
	return nil
}

// again makes the configuration anew, nil if it cannot be used.
func (f *Flags) again(log logrus.FieldLogger) *Config {
	next, warnings, err := f.Complete()
	for _, line := range warnings {
		log.Warn(line)
	}
	if err != nil {
		log.Error("The configuration file changed and is refused; the configuration stays as it is")
		for line := range strings.Lines(err.Error()) {
			log.Error(strings.TrimSpace(line))
		}
	}
	return next
}

// Watch calls changed each time that a file holds something else than before, first than the text that is known, until
// ctx ends. It looks at the file when something happens in its folder: that covers editors which put a new file in its
// place, and the links by which a mounted ConfigMap changes.
func Watch(ctx context.Context, path string, known []byte, log logrus.FieldLogger, changed func()) {
	watcher := platform.NewDirWatcher(func(err error) {
		log.WithError(err).Warnf("Changes of the configuration file are found every %v only", rescanPeriod)
	})
	defer watcher.Close()
	watcher.Add(filepath.Dir(path))
	rescan := time.NewTicker(rescanPeriod)
	defer rescan.Stop()
	quiet := time.NewTimer(0) // it may have changed since it was read
	defer quiet.Stop()
	missing := false
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-watcher.Events:
			if base := filepath.Base(e.Name); base == filepath.Base(path) || strings.HasPrefix(base, "..") {
				quiet.Reset(settleTime)
			}
			continue
		case <-watcher.Lost:
		case <-rescan.C:
			watcher.Add(filepath.Dir(path))
		case <-quiet.C:
		}
		text, err := os.ReadFile(path)
		if err != nil && !missing {
			log.WithError(err).Warn("The configuration file cannot be read; the configuration stays as it is")
		}
		if missing = err != nil; !missing && !bytes.Equal(text, known) {
			known = text
			changed()
		}
	}
}
