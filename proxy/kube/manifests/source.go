// Package manifests reads Services, EndpointSlices and Nodes from files, follows the files as they change, and feeds
// translate.Cache. It does not know what objects mean.
package manifests

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/kube/translate"
)

// Source feeds a Cache from files, and follows them as they change.
type Source struct {
	// Stdin is what the path "-" reads, once; nil is the process's standard input. Set it before Run.
	Stdin io.Reader

	paths  []string
	cache  *translate.Cache
	log    logrus.FieldLogger
	synced chan struct{}
	seed   maphash.Seed

	// Owned by Run.
	sources []*location
	holders map[translate.Key][]*file          // the files that have an object, the one that is served first
	served  map[translate.Key]translate.Object // as the cache has them
	doubles map[translate.Key]string           // objects in several files, as last said
}

// New prepares to read paths, each a file, a folder (its *.yaml, *.yml and *.json, not those of folders in it)
// or "-" for standard input. Of an object that several files have, the one of the first path is served, within a folder
// the one of the first name.
func New(paths []string, cache *translate.Cache, log logrus.FieldLogger) *Source {
	return &Source{
		paths:   paths,
		cache:   cache,
		log:     log,
		synced:  make(chan struct{}),
		seed:    maphash.MakeSeed(),
		holders: map[translate.Key][]*file{},
		served:  map[translate.Key]translate.Object{},
		doubles: map[translate.Key]string{},
	}
}

// Synced is closed once all paths have been read for the first time.
func (m *Source) Synced() <-chan struct{} { return m.synced }

// Run reads all paths into the cache, and then follows them until ctx ends. It returns an error only for a path that
// cannot be read at the start; whatever is wrong in files or happens to them later is logged, and the rest is served.
// Call it once.
func (m *Source) Run(ctx context.Context) error {
	if err := m.open(); err != nil {
		return err
	}
	watcher := platform.NewDirWatcher(func(err error) { // before the first reading, so that no change falls between
		m.log.WithError(err).Warnf("watch manifests: changes are found every %v only", rescanPeriod)
	})
	defer watcher.Close()
	follow(watcher, m.sources)
	streams, err := m.readStreams(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	files, err := m.stale()
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	m.update(append(streams, readings(files)...))
	m.log.WithField("objects", len(m.served)).Info("manifests read")
	close(m.synced)
	m.followChanges(ctx, watcher)
	return nil
}

func (m *Source) open() error {
	for i, path := range m.paths {
		if slices.Contains(m.paths[:i], path) {
			continue
		}
		src, err := newLocation(path, i)
		if err != nil {
			return err
		}
		m.sources = append(m.sources, src)
	}
	return nil
}

// stale returns the files of all sources that are to be read, and the first error.
func (m *Source) stale() ([]*file, error) {
	var out []*file
	var first error
	for _, src := range m.sources {
		files, err := src.scan()
		if err != nil && first == nil {
			first = err
		}
		out = append(out, files...)
	}
	return out, first
}

func readings(files []*file) []*reading {
	out := make([]*reading, len(files))
	for i, f := range files {
		out[i] = &reading{file: f}
	}
	return out
}

// update reads files and brings the cache up to date with them, as one change. Only fragments that the file did not
// have before are decoded, on all processors.
func (m *Source) update(readings []*reading) {
	if len(readings) == 0 {
		return
	}
	parallel(len(readings), func(i int) { readings[i].load(m.seed) })
	decodeNew(readings, m.cache.Options())
	touched := map[translate.Key]struct{}{}
	for _, r := range readings {
		m.settle(r, touched)
	}
	m.serve(touched)
}

// settle takes in one reading and adds the objects that may have changed by it to touched.
func (m *Source) settle(r *reading, touched map[translate.Key]struct{}) {
	before := r.objects
	warnings, note := r.settle(time.Now())
	for _, text := range warnings {
		m.log.Warn(text)
	}
	if note != "" {
		m.log.Info(note)
	}
	for key := range before {
		if _, has := r.objects[key]; !has {
			m.holders[key] = slices.DeleteFunc(m.holders[key], func(f *file) bool { return f == r.file })
			touched[key] = struct{}{}
		}
	}
	for key, object := range r.objects {
		if _, had := before[key]; !had {
			at, _ := slices.BinarySearchFunc(m.holders[key], r.file, compareFiles)
			m.holders[key] = slices.Insert(m.holders[key], at, r.file)
		}
		if before[key] != object {
			touched[key] = struct{}{}
		}
	}
}

// serve passes on to the cache which of the touched objects changed.
func (m *Source) serve(touched map[translate.Key]struct{}) {
	var set []translate.Object
	var gone []translate.Key
	for _, key := range slices.SortedFunc(maps.Keys(touched), translate.Key.Compare) {
		holders := m.holders[key]
		m.sayDouble(key, holders)
		if len(holders) == 0 {
			delete(m.holders, key)
			delete(m.served, key)
			gone = append(gone, key)
		} else if object := holders[0].objects[key]; m.served[key] != object {
			m.served[key] = object
			set = append(set, object)
		}
	}
	m.cache.Apply(set, gone)
}

// sayDouble reports an object that several files have, once until that changes.
func (m *Source) sayDouble(key translate.Key, holders []*file) {
	if len(holders) < 2 {
		delete(m.doubles, key)
		return
	}
	var paths bytes.Buffer
	for _, f := range holders[1:] {
		fmt.Fprintf(&paths, " %s", f.path)
	}
	text := fmt.Sprintf("%s is in several files: that of %s is served, ignored are those of%s", key, holders[0].path, &paths)
	if m.doubles[key] != text {
		m.doubles[key] = text
		m.log.Warn(text)
	}
}
