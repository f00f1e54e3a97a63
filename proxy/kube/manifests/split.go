package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// fragment is the text of one object in a file: a document, or an item of a list.
type fragment struct {
	text []byte
	doc  int      // number of the document in the file, from 1
	item int      // number in its list, from 1; 0: no item
	line int      // that its text begins at, from 1
	list typeMeta // of the list around it
	json bool     // the text is JSON; else YAML, of an item a list of one
	err  error    // why the text cannot be read
}

// split returns the objects in the text of a file without decoding them, so that they can be decoded in parallel, only
// when changed, and though others in the file are invalid. Documents are separated as in YAML; JSON values may also
// follow each other.
func split(text []byte) []fragment {
	var out []fragment
	for _, doc := range documents(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))) {
		doc.doc = number(out)
		switch {
		case doc.err != nil:
			out = append(out, doc)
		case doc.trimLeft().text[0] == '{':
			out = append(out, splitJSON(doc)...)
		default:
			out = append(out, splitYAML(doc)...)
		}
	}
	return out
}

// number is the number of the document that follows fragments.
func number(fragments []fragment) int {
	if len(fragments) == 0 {
		return 1
	}
	return fragments[len(fragments)-1].doc + 1
}

// documents are those that hold more than comments. A separator with other text on its line is an error, as for
// kubectl, behind which nothing is read.
func documents(text []byte) (out []fragment) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for line := 1; ; {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			return append(out, fragment{text: text, line: line, err: err})
		}
		whole := fragment{text: doc, line: line}
		line += bytes.Count(doc, []byte("\n")) + 1 // and the separator behind it
		if bytes.HasPrefix(doc, []byte("---")) {   // the reader drops only separators between documents
			_, whole = whole.cutAt(bytes.IndexByte(doc, '\n') + 1)
		}
		if !blank(whole.text) {
			out = append(out, whole)
		}
	}
}

// blank tells whether text has comments, directives and white space only.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}
