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

	"github.com/portald/portald/proxy/dirwatch"
)

// When changes of the file are read.
const (
	quietPeriod  = 50 * time.Millisecond // without events, after which a change is considered complete
	rescanPeriod = 5 * time.Second       // the file is checked, whatever events there were
)

// Follow follows the file of --config until ctx ends, and calls apply with settings that changed and take effect at
// once. It logs changes that take effect at the next start, once, and a file that is refused, which changes nothing.
// Without a file it only waits for ctx.
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
		if len(since.Applied) > 0 {
			log.Info("Configuration file changed: applied")
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

// again makes the configuration again; nil if it is refused.
func (f *Flags) again(log logrus.FieldLogger) *Config {
	next, warnings, err := f.Complete()
	f.refused.Store(err != nil)
	for _, line := range warnings {
		log.Warn(line)
	}
	if err != nil {
		log.Error("Configuration file refused: keeping the running configuration")
		for line := range strings.Lines(err.Error()) {
			log.Error(strings.TrimSpace(line))
		}
	}
	return next
}

// Watch calls changed each time that the contents of a file change, at first from the known text, until ctx ends. It
// reads the file after events in its directory, so that it follows editors that replace the file, and the symbolic
// links of a mounted ConfigMap.
func Watch(ctx context.Context, path string, known []byte, log logrus.FieldLogger, changed func()) {
	watcher := dirwatch.New(func(err error) {
		log.WithError(err).Warnf("Cannot watch the configuration file: polling it every %v", rescanPeriod)
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
				quiet.Reset(quietPeriod)
			}
			continue
		case <-watcher.Lost:
		case <-rescan.C:
			watcher.Add(filepath.Dir(path))
		case <-quiet.C:
		}
		text, err := os.ReadFile(path)
		if err != nil && !missing {
			log.WithError(err).Warn("Cannot read the configuration file: keeping the running configuration")
		}
		if missing = err != nil; !missing && !bytes.Equal(text, known) {
			known = text
			changed()
		}
	}
}
