package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
)

// location is a path that manifests are read from: a file, a directory, or a stream, which is read once.
type location struct {
	path    string // absolute; "-" is standard input
	order   int    // among the paths: of an object in several, the first is served
	stream  bool
	dir     bool
	files   map[string]*file // by path
	problem string           // that was logged and persists
}

// newLocation resolves a path, which must exist.
func newLocation(path string, order int) (*location, error) {
	l := &location{path: path, order: order, files: map[string]*file{}}
	if path == "-" {
		l.stream = true
		l.file("standard input")
		return l, nil
	}
	var err error
	if l.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	info, err := os.Stat(l.path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	l.dir = info.IsDir()
	if l.stream = !l.dir && !info.Mode().IsRegular(); l.stream { // a pipe, as a shell's <(…)
		l.file(l.path)
	}
	return l, nil
}

func (l *location) file(path string) *file {
	f := l.files[path]
	if f == nil {
		f = &file{path: path, order: l.order}
		l.files[path] = f
	}
	return f
}

// scan returns the files that differ from what was read, or were removed. On an error none is to be read again.
func (l *location) scan() (stale []*file, err error) {
	if l.stream {
		return nil, nil
	}
	paths, err := l.list()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(l.files, func(_ string, f *file) bool {
		return f.info == nil && len(f.objects) == 0 // removed before
	})
	for _, path := range paths {
		l.file(path)
	}
	for _, f := range l.files {
		if f.stale() {
			stale = append(stale, f)
		}
	}
	slices.SortFunc(stale, compareFiles)
	return stale, nil
}

// list returns the paths of the manifests that exist: none if the location itself was removed.
func (l *location) list() ([]string, error) {
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if l.dir = info.IsDir(); !l.dir {
		return []string{l.path}, nil
	}
	entries, err := os.ReadDir(l.path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if isManifest(e.Name()) {
			paths = append(paths, filepath.Join(l.path, e.Name()))
		}
	}
	return paths, nil
}

// isManifest tells by its name whether a file of a directory is read. Hidden files and backups of editors are not.
func isManifest(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	}
	return false
}

func compareFiles(a, b *file) int {
	return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.path, b.path))
}

// report logs once when the location cannot be read or was removed, and when it can be read again.
func (l *location) report(err error, log logrus.FieldLogger) {
	if l.stream {
		return
	}
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("%s: %v; its objects are served as they were", l.path, err)
	} else if _, err := os.Stat(l.path); errors.Is(err, fs.ErrNotExist) {
		problem = fmt.Sprintf("%s was removed, and so are its objects", l.path)
	}
	if problem != l.problem && problem != "" {
		log.Warn(problem)
	} else if problem != l.problem {
		log.Infof("%s can be read again", l.path)
	}
	l.problem = problem
}
