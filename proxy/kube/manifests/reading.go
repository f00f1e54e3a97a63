package manifests

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/kube/translate"
)

// reading collects the contents of a file while it is read, until they are committed as its state.
type reading struct {
	*file
	info      fs.FileInfo // nil: it does not exist
	data      []byte
	err       error
	fragments []fragment
	digests   []digest
	results   [][]decoded // of each fragment; nil: not decoded yet
}

// load reads and splits the text. The info is read first, so that a later write makes the file stale.
func (r *reading) load(seed maphash.Seed) {
	if r.data == nil {
		if r.info, r.err = statFile(r.path); r.err != nil || r.info == nil {
			return
		}
		if r.data, r.err = os.ReadFile(r.path); errors.Is(r.err, fs.ErrNotExist) {
			r.info, r.err = nil, nil
		}
	}
	r.fragments = split(r.data)
	r.digests = make([]digest, len(r.fragments))
	r.results = make([][]decoded, len(r.fragments))
	for i, f := range r.fragments {
		r.digests[i] = digest{maphash.Bytes(seed, f.Text), len(f.Text), f.list, f.item > 0}
		r.results[i] = r.known[r.digests[i]]
	}
}

// commit makes what was read the state of the file and returns what is to be logged and was not before. Objects that
// cannot be read, or may be in what cannot be read, stay as they were.
func (r *reading) commit(now time.Time) (fresh []problem, note string) {
	c := contents{}
	switch {
	case r.err != nil:
		c.problems = []problem{{fmt.Sprintf("%s: %v; its %d objects are served as they were", r.path, r.err, len(r.objects)),
			true}}
		r.file.info = nil
	case r.truncated(now):
		r.file.info = nil
	default:
		c = r.contents()
		note = c.note(r.path)
		r.replace(&c)
	}
	logged := map[string]struct{}{}
	r.refused = nil
	for _, p := range c.problems {
		if p.refused {
			r.refused = append(r.refused, p.text)
		}
		if _, has := r.logged[p.text]; !has {
			fresh = append(fresh, p)
		}
		logged[p.text] = struct{}{}
	}
	if _, has := r.logged[note]; has {
		logged[note], note = struct{}{}, ""
	} else if note != "" {
		logged[note] = struct{}{}
	}
	r.logged = logged
	return fresh, note
}

// truncated tells whether the file became empty so recently that it may be about to be written.
func (r *reading) truncated(now time.Time) bool {
	if r.info == nil || len(r.fragments) > 0 || len(r.objects) == 0 {
		return false
	}
	age := now.Sub(r.info.ModTime())
	return age >= 0 && age < emptyGrace
}

// replace sets the contents of the file; documents that cannot be read keep their former contents.
func (r *reading) replace(c *contents) {
	kept := 0
	for key, object := range r.objects {
		if _, has := c.objects[key]; !has && c.refuses(key) {
			c.objects[key] = object
			kept++
		}
	}
	if kept > 0 {
		c.warn(r.path, fmt.Sprintf("objects that it had before and that may be in what cannot be read are served as they "+
			"were: %d", kept))
	}
	r.file.info, r.file.objects = r.info, c.objects
	r.known = make(map[digest][]decoded, len(r.digests))
	for i, d := range r.digests {
		if !slices.ContainsFunc(r.results[i], decoded.namesLine) {
			r.known[d] = r.results[i]
		}
	}
}

// namesLine tells whether a message in the result may have a line, which changes with the lines above.
func (d decoded) namesLine() bool { return d.err != nil || len(d.warnings) > 0 }

// decodeNew decodes the fragments that have no result yet.
func decodeNew(readings []*reading, opts translate.Options) {
	type job struct {
		fragment fragment
		result   *[]decoded
	}
	var jobs []job
	for _, r := range readings {
		for i := range r.fragments {
			if r.results[i] == nil {
				jobs = append(jobs, job{r.fragments[i], &r.results[i]})
			}
		}
	}
	parallel(len(jobs), func(i int) { *jobs[i].result = decodeTrimmed(jobs[i].fragment, opts) })
}

// parallel calls f for 0 … n-1 on all CPUs.
func parallel(n int, f func(i int)) {
	if n <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
