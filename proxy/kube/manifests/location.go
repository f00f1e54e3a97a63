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

// location is one PATH that manifests come from: a file, a folder, or a stream that is read once.
type location struct {
	path    string // absolute; "-" is standard input
	order   int    // place among the paths: the first that has an object wins
	stream  bool
	folder  bool
	files   map[string]*file // by path
	trouble string           // that stands and was said
}

// newLocation resolves a path. One that cannot be read is an error.
func newLocation(path string, order int) (*location, error) {
	src := &location{path: path, order: order, files: map[string]*file{}}
	if path == "-" {
		src.stream = true
		src.file("standard input")
		return src, nil
	}
	var err error
	if src.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	info, err := os.Stat(src.path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	src.folder = info.IsDir()
	if src.stream = !src.folder && !info.Mode().IsRegular(); src.stream { // a pipe, as a shell's <(…)
		src.file(src.path)
	}
	return src, nil
}

func (s *location) file(path string) *file {
	f := s.files[path]
	if f == nil {
		f = &file{path: path, order: s.order}
		s.files[path] = f
	}
	return f
}

// scan returns the files that are not as they were last read, those that are gone included. An error leaves them all
// as they are.
func (s *location) scan() (stale []*file, err error) {
	if s.stream {
		return nil, nil
	}
	paths, err := s.list()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(s.files, func(_ string, f *file) bool { return f.info == nil && len(f.objects) == 0 }) // were gone
	for _, path := range paths {
		s.file(path)
	}
	for _, f := range s.files {
		if f.stale() {
			stale = append(stale, f)
		}
	}
	slices.SortFunc(stale, compareFiles)
	return stale, nil
}

// list returns the paths of the manifests that are there now: none when the source itself is gone.
func (s *location) list() ([]string, error) {
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.folder = info.IsDir(); !s.folder {
		return []string{s.path}, nil
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if isManifest(e.Name()) {
			paths = append(paths, filepath.Join(s.path, e.Name()))
		}
	}
	return paths, nil
}

// isManifest tells by its name whether a file of a folder is read. Hidden files and editors' backups are not.
func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	}
	return false
}

func compareFiles(a, b *file) int {
	return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.path, b.path))
}

// report says once when the source cannot be looked at or is gone, and when it is back.
func (s *location) report(err error, log logrus.FieldLogger) {
	if s.stream {
		return
	}
	trouble := ""
	if err != nil {
		trouble = fmt.Sprintf("%s: %v; its objects stay as they were", s.path, err)
	} else if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		trouble = fmt.Sprintf("%s is gone; its objects are removed until it is back", s.path)
	}
	if trouble != s.trouble && trouble != "" {
		log.Warn(trouble)
	} else if trouble != s.trouble {
		log.Infof("%s is back", s.path)
	}
	s.trouble = trouble
}
