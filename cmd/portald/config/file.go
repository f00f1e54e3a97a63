package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// file is a configuration file as it was read, with warnings and errors.
type file struct {
	path      string
	text      []byte
	documents                        // zero where the file has no value
	number    map[doc]int            // of each document in the file, from 1
	written   map[doc]map[string]any // valid values, by field
	warnings  []string
	errs      []error
}

// load decodes the documents of a file. All mistakes are in errs.
func load(path string, text []byte) *file {
	f := &file{path: path, text: text, number: map[doc]int{}, written: map[doc]map[string]any{}}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	number, line := 1, 1
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			f.refuse(number, "%v", err)
			break
		}
		if f.read(number, line, part) {
			number++
		}
		line += bytes.Count(part, []byte("\n")) + 1 // and the line between two
	}
	if number == 1 && len(f.errs) == 0 {
		f.errs = append(f.errs, fmt.Errorf("%s: has no document: write a %v or a %v", path, kubeProxy, portald))
	}
	return f
}

func (f *file) refuse(number int, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: document %d: %s", f.path, number, oneLine(fmt.Sprintf(format, args...))))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// where names a document of the file.
func (f *file) where(which doc) string {
	return fmt.Sprintf("%s: document %d (%v)", f.path, f.number[which], which)
}

// has tells whether the file has such a document.
func (f *file) has(which doc) bool { return f != nil && f.number[which] > 0 }

// read decodes the document that begins at a line. False: it is blank.
func (f *file) read(number, line int, part []byte) bool {
	padded := append(bytes.Repeat([]byte("\n"), line-1), part...) // so that messages about YAML name the file's lines
	asJSON, strict := yaml.YAMLToJSONStrict(padded)
	if strict != nil {
		var err error
		if asJSON, err = yaml.YAMLToJSON(padded); err != nil {
			f.refuse(number, "%v", err)
			return true
		}
	}
	var content any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &content); err != nil {
		f.refuse(number, "%v", err)
		return true
	}
	if content == nil && strict == nil {
		return false
	}
	fields, ok := content.(map[string]any)
	if !ok {
		f.refuse(number, "is not a mapping of fields: write a %v or a %v", kubeProxy, portald)
		return true
	}
	if which, ok := f.identify(number, fields); ok {
		f.take(which, fields, strict)
	}
	return true
}

// identify tells which document it is. False: it is none of the two, or the file has another of its kind.
func (f *file) identify(number int, fields map[string]any) (doc, bool) {
	for _, which := range []doc{kubeProxy, portald} {
		meta := which.typeMeta()
		if fields["apiVersion"] != meta.APIVersion || fields["kind"] != meta.Kind {
			continue
		}
		if f.has(which) {
			f.refuse(number, "is a second %v beside document %d: merge them", which, f.number[which])
			return which, false
		}
		f.number[which] = number
		return which, true
	}
	advice := ""
	if fields["kind"] == "ConfigMap" {
		advice = "; use the file that is in the ConfigMap, not the ConfigMap"
	}
	f.refuse(number, "apiVersion %s, kind %s: must be %s %v or %s %v%s", shown(fields["apiVersion"]),
		shown(fields["kind"]),
		kubeProxy.typeMeta().APIVersion, kubeProxy, portald.typeMeta().APIVersion, portald, advice)
	return 0, false
}

// take decodes the fields of a document. Unknown and duplicate fields are warnings in kube-proxy's document, since
// other releases have other fields, and mistakes in portald's own.
func (f *file) take(which doc, fields map[string]any, strict error) {
	r := fieldReader{known: map[string]bool{"apiVersion": true, "kind": true}, written: map[string]any{}}
	for _, s := range settings() {
		r.known[s.path] = r.known[s.path] || s.doc == which
	}
	r.read("", fields, f.root(which))
	f.written[which] = r.written
	say := func(problem, lenient string) {
		if which == portald {
			f.errs = append(f.errs, errors.New(f.where(which)+": "+problem))
		} else {
			f.warnings = append(f.warnings, f.where(which)+": "+problem+"; "+lenient)
		}
	}
	for _, problem := range duplicates(strict) {
		say(problem, "the last one is used")
	}
	for _, problem := range r.unknown {
		say(problem, "it has no effect")
	}
	for _, problem := range r.wrong {
		f.errs = append(f.errs, errors.New(f.where(which)+": "+problem))
	}
}

// duplicates are the lines about duplicate keys in the YAML library's error.
func duplicates(strict error) (out []string) {
	if strict == nil {
		return nil
	}
	for line := range strings.Lines(strict.Error()) {
		if line = strings.TrimSpace(line); line != "yaml: unmarshal errors:" {
			out = append(out, line)
		}
	}
	return out
}
