package manifests

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/portald/portald/proxy/kube/translate"
)

// emptyGrace is how long a file that was truncated keeps its objects: "kubectl get … > file" truncates the file first,
// and writes it when it has the data.
const emptyGrace = 10 * time.Second

// file is a manifest file as it was last read.
type file struct {
	path  string
	order int

	info    fs.FileInfo // of what was read; nil: nothing, or read it again
	objects map[translate.Key]translate.Object
	known   map[digest][]decoded // the result for each fragment, so that only new ones are decoded
	logged  map[string]struct{}  // problems that were logged and persist
	refused []string             // what cannot be read, and why
}

// digest identifies the text of a fragment and what else determines how it is decoded.
type digest struct {
	sum  uint64
	size int
	list typeMeta
	item bool
}

// stale tells whether the file differs from what was read.
func (f *file) stale() bool {
	info, err := statFile(f.path)
	if err != nil {
		return true // reading it reports the error
	}
	if info == nil || f.info == nil {
		return info != nil || f.info != nil || len(f.objects) > 0
	}
	return !os.SameFile(f.info, info) || f.info.Size() != info.Size() || !f.info.ModTime().Equal(info.ModTime())
}

// statFile returns the info of a regular file behind symbolic links; nil if there is none. On Windows os.Stat leaves
// out which file it is: the first SameFile would look for it, by the path, when another may be there.
func statFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	os.SameFile(info, info)
	return info, nil
}
