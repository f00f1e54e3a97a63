package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/proxy/kube/translate"
)

func readings(files []*file) []*reading {
	out := make([]*reading, len(files))
	for i, f := range files {
		out[i] = &reading{file: f}
	}
	return out
}

// update reads files and updates the cache, as one change. Only fragments that a file did not have before are decoded,
// in parallel.
func (s *Source) update(readings []*reading) {
	if len(readings) == 0 {
		return
	}
	parallel(len(readings), func(i int) { readings[i].load(s.seed) })
	decodeNew(readings, s.cache.Options())
	changed := map[translate.Key]struct{}{}
	for _, r := range readings {
		s.commit(r, changed)
	}
	s.serve(changed)
}

// commit makes a reading the state of its file, and adds the objects that may have changed by it to changed.
func (s *Source) commit(r *reading, changed map[translate.Key]struct{}) {
	before, refused := r.objects, len(r.refused) > 0
	fresh, note := r.commit(time.Now())
	for _, p := range fresh {
		if !p.refused || !s.once {
			s.log.Warn(p.text)
		}
	}
	if note != "" {
		s.log.Info(note)
	}
	switch now := len(r.refused) > 0; {
	case now && !refused:
		s.refused.Add(1)
	case !now && refused:
		s.refused.Add(-1)
	}
	for key := range before {
		if _, has := r.objects[key]; !has {
			s.files[key] = slices.DeleteFunc(s.files[key], func(f *file) bool { return f == r.file })
			changed[key] = struct{}{}
		}
	}
	for key, object := range r.objects {
		if _, had := before[key]; !had {
			at, _ := slices.BinarySearchFunc(s.files[key], r.file, compareFiles)
			s.files[key] = slices.Insert(s.files[key], at, r.file)
		}
		if before[key] != object {
			changed[key] = struct{}{}
		}
	}
}

// serve updates the cache with those objects of changed that did change.
func (s *Source) serve(changed map[translate.Key]struct{}) {
	var set []translate.Object
	var removed []translate.Key
	for _, key := range slices.SortedFunc(maps.Keys(changed), translate.Key.Compare) {
		files := s.files[key]
		s.warnOfDuplicate(key, files)
		if len(files) == 0 {
			delete(s.files, key)
			delete(s.served, key)
			removed = append(removed, key)
		} else if object := files[0].objects[key]; s.served[key] != object {
			s.served[key] = object
			set = append(set, object)
		}
	}
	s.cache.Apply(set, removed)
	s.warnOfOwners(set)
}

// warnOfOwners logs which slices are of Services that are not there, in one line: nothing comes of them.
func (s *Source) warnOfOwners(set []translate.Object) {
	const most = 5
	var lost []string
	for _, object := range set {
		owner, ok := translate.OwnerOf(object)
		if _, has := s.served[owner]; ok && !has {
			lost = append(lost, fmt.Sprintf("%s of %s", object.Key(), owner))
		}
	}
	if n := len(lost); n > most {
		lost = append(lost[:most], fmt.Sprintf("and %d more", n-most))
	}
	if len(lost) > 0 {
		s.log.Warnf("Not used, since the manifests do not have the Service: %s; check the label %s and the "+
			"namespace",
			strings.Join(lost, ", "), discoveryv1.LabelServiceName)
	}
}

// warnOfDuplicate logs an object that several files have, once until that changes.
func (s *Source) warnOfDuplicate(key translate.Key, files []*file) {
	if len(files) < 2 {
		delete(s.duplicates, key)
		return
	}
	var ignored bytes.Buffer
	for _, f := range files[1:] {
		fmt.Fprintf(&ignored, " %s", f.path)
	}
	text := fmt.Sprintf("%s is in several files: that of %s is served, ignored are those of%s",
		key, files[0].path, &ignored)
	if s.duplicates[key] != text {
		s.duplicates[key] = text
		s.log.Warn(text)
	}
}
