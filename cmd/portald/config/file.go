package config

import (
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/portald/portald/proxy/yamldocs"
)

// file is a configuration file as it was read, with warnings and errors.
type file struct {
	path      string
	text      []byte
	documents                         // zero where the file has no value
	number    map[doc]int             // of each document in the file, from 1
	written   map[doc]map[string]any  // valid values, by field
	unread    map[doc]map[string]bool // fields whose values are of the wrong type
	warnings  []string
	errs      []error
}

// load decodes the documents of a file. All mistakes are in errs.
func load(path string, text []byte) *file {
	f := &file{
		path: path, text: text, number: map[doc]int{}, written: map[doc]map[string]any{}, unread: map[doc]map[string]bool{},
	}
	found := false
	for _, part := range yamldocs.Split(text) {
		found = f.read(part) || found
	}
	if !found {
		f.errs = append(f.errs, fmt.Errorf("%s: has no document: write a %v or a %v", path, kubeProxy, portald))
	}
	return f
}

func (f *file) refuse(part yamldocs.Document, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: %s: %s", f.path, part.Place(), oneLine(fmt.Sprintf(format, args...))))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// where names a document of the file.
func (f *file) where(which doc) string {
	return fmt.Sprintf("%s: document %d (%v)", f.path, f.number[which], which)
}

// has tells whether the file has such a document.
func (f *file) has(which doc) bool { return f != nil && f.number[which] > 0 }

// read decodes a document. False: there is nothing in it.
func (f *file) read(part yamldocs.Document) bool {
	asJSON, repeated, err := part.ToJSON()
	var content any
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &content)
	}
	if err != nil {
		f.refuse(part, "%v", err)
		return true
	}
	if content == nil {
		return false
	}
	fields, ok := content.(map[string]any)
	if !ok {
		f.refuse(part, "is not a mapping of fields: write a %v or a %v", kubeProxy, portald)
		return true
	}
	if which, ok := f.identify(part, fields); ok {
		f.take(which, fields, repeated)
	}
	return true
}

// identify tells which document it is. False: it is none of the two, or the file has another of its kind.
func (f *file) identify(part yamldocs.Document, fields map[string]any) (doc, bool) {
	for _, which := range []doc{kubeProxy, portald} {
		meta := which.typeMeta()
		if fields["apiVersion"] != meta.APIVersion || fields["kind"] != meta.Kind {
			continue
		}
		if f.has(which) {
			f.refuse(part, "is a second %v beside document %d: merge them", which, f.number[which])
			return which, false
		}
		f.number[which] = part.Number
		return which, true
	}
	advice := ""
	if fields["kind"] == "ConfigMap" {
		advice = "; use the file that is in the ConfigMap, not the ConfigMap"
	}
	f.refuse(part, "apiVersion %s, kind %s: must be %s %v or %s %v%s", shown(fields["apiVersion"]), shown(fields["kind"]),
		kubeProxy.typeMeta().APIVersion, kubeProxy, portald.typeMeta().APIVersion, portald, advice)
	return 0, false
}

// take decodes the fields of a document. Unknown and repeated fields are warnings in kube-proxy's document, since other
// releases have other fields, and mistakes in portald's own.
func (f *file) take(which doc, fields map[string]any, repeated []string) {
	r := fieldReader{
		known: map[string]bool{"apiVersion": true, "kind": true}, written: map[string]any{}, unread: map[string]bool{},
	}
	for _, s := range settings() {
		r.known[s.path] = r.known[s.path] || s.doc == which
	}
	r.read("", fields, f.root(which))
	f.written[which], f.unread[which] = r.written, r.unread
	say := func(problem, lenient string) {
		if which == portald {
			f.errs = append(f.errs, errors.New(f.where(which)+": "+problem))
		} else {
			f.warnings = append(f.warnings, f.where(which)+": "+problem+"; "+lenient)
		}
	}
	for _, problem := range repeated {
		say(problem, "the last one is used")
	}
	for _, problem := range r.unknown {
		say(problem, "it has no effect")
	}
	for _, problem := range r.wrong {
		f.errs = append(f.errs, errors.New(f.where(which)+": "+problem))
	}
}
