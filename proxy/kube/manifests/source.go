// Package manifests reads Services, EndpointSlices, Nodes and ServiceCIDRs from files into translate.Cache, and again
// when the files change. It does not know what the objects mean.
package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/dirwatch"
	"github.com/portald/portald/proxy/kube/translate"
)

// Source fills a Cache from files, and updates it as they change.
type Source struct {
	// Stdin is read once for the path "-"; nil is the process's standard input. Set it before Run.
	Stdin io.Reader

	paths   []string
	cache   *translate.Cache
	log     logrus.FieldLogger
	synced  chan struct{}
	seed    maphash.Seed
	rescan  time.Duration // all files are checked that often, whatever events there were
	once    bool          // what cannot be read is returned, and not logged
	refused atomic.Int64  // files

	// Owned by Run.
	locations  []*location
	files      map[translate.Key][]*file          // that have an object; the first one's is served
	served     map[translate.Key]translate.Object // what the cache has
	duplicates map[translate.Key]string           // the last warning about an object in several files
}

// New prepares to read paths, each a file, a directory (its *.yaml, *.yml and *.json, without subdirectories) or "-"
// for standard input. If several files have the same object, the one of the first path is served, within a directory
// the one of the first name.
func New(paths []string, cache *translate.Cache, log logrus.FieldLogger) *Source {
	return &Source{
		paths: paths, cache: cache, log: log, synced: make(chan struct{}), seed: maphash.MakeSeed(),
		rescan: rescanPeriod, files: map[translate.Key][]*file{}, served: map[translate.Key]translate.Object{},
		duplicates: map[translate.Key]string{},
	}
}

// Synced is closed once all paths were read for the first time.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Run reads all paths into the cache, and then follows changes until ctx ends. It returns an error only for a path that
// cannot be read at the start. Invalid contents and later errors are logged, and the rest is served, with what a file
// had before in the place of what cannot be read. Call it once.
func (s *Source) Run(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	watcher := dirwatch.New(func(err error) { // before the first reading, so that no change is missed
		s.log.WithError(err).Warnf("Cannot watch the manifests: polling them every %v", rescanPeriod)
	})
	defer watcher.Close()
	watchDirs(watcher, s.locations)
	if err := s.first(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	close(s.synced)
	s.followChanges(ctx, watcher)
	return nil
}

// Read reads all paths into the cache once, in place of Run. The error names each thing that cannot be read, by file,
// document and line.
func (s *Source) Read(ctx context.Context) error {
	s.once = true
	if err := s.open(); err != nil {
		return err
	}
	if err := s.first(ctx); err != nil {
		return err
	}
	var refused []error
	for _, l := range s.locations {
		for _, path := range slices.Sorted(maps.Keys(l.files)) {
			for _, text := range l.files[path].refused {
				refused = append(refused, errors.New(text))
			}
		}
	}
	const most = 20
	if n := len(refused); n > most {
		refused = append(refused[:most], fmt.Errorf("and %d more", n-most))
	}
	return errors.Join(refused...)
}

// Empty tells, after Read, whether there was no object at all.
func (s *Source) Empty() bool { return len(s.served) == 0 }

// Refused is the number of files of which something cannot be read. It may be called at any time.
func (s *Source) Refused() int { return int(s.refused.Load()) }

// first reads all paths for the first time.
func (s *Source) first(ctx context.Context) error {
	streams, err := s.readStreams(ctx)
	if err != nil || ctx.Err() != nil {
		return cmp.Or(err, ctx.Err())
	}
	files, err := s.stale()
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	s.update(append(streams, readings(files)...))
	read := s.log.WithField("objects", len(s.served))
	if len(s.served) == 0 {
		read.Warnf("No object in the manifests: %s", strings.Join(s.paths, ", "))
	} else {
		read.Info("Manifests read")
	}
	return nil
}

func (s *Source) open() error {
	for i, path := range s.paths {
		if slices.Contains(s.paths[:i], path) {
			continue
		}
		l, err := newLocation(path, i)
		if err != nil {
			return err
		}
		s.locations = append(s.locations, l)
	}
	return nil
}

// stale returns the files of all locations that must be read, and the first error.
func (s *Source) stale() ([]*file, error) {
	var out []*file
	var first error
	for _, l := range s.locations {
		files, err := l.scan()
		if err != nil && first == nil {
			first = err
		}
		out = append(out, files...)
	}
	return out, first
}
