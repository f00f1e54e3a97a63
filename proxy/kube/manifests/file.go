package manifests

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/portald/portald/proxy/kube/translate"
)

// emptyGrace is how long a file that was emptied keeps its objects: a program that replaces a file by writing anew
// ("kubectl get … > file") empties it first, and fills it when it has the data.
const emptyGrace = 10 * time.Second

// file is one manifest file as it was last read.
type file struct {
	path  string
	order int

	info    fs.FileInfo // what was read; nil = nothing, or to be read again
	objects map[translate.Key]translate.Object
	known   map[digest][]decoded // what each of its fragments is, so that only changed ones are decoded
	said    map[string]struct{}  // problems that stand and were said
}

// digest stands for the text of a fragment and for what else decides how it is read.
type digest struct {
	sum  uint64
	size int
	list typeMeta
	item bool
}

// stale tells whether the file is not (or no longer) as it was read.
func (f *file) stale() bool {
	info, err := statFile(f.path)
	if err != nil {
		return true // read it, to have the error reported
	}
	if info == nil || f.info == nil {
		return info != nil || f.info != nil || len(f.objects) > 0
	}
	return !os.SameFile(f.info, info) || f.info.Size() != info.Size() || !f.info.ModTime().Equal(info.ModTime())
}

// statFile is the identity of a regular file, symbolic links followed; nil when there is none.
func statFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	return info, nil
}
