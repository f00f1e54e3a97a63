package manifests

import "bytes"

// fragment is the text of one object in a file: a document, or an item of a list.
type fragment struct {
	text  []byte
	doc   int       // number of the document in the file, from 1
	item  int       // number in its list, from 1; 0 = no item
	line  int       // line its text begins at, from 1
	list  typeMeta  // of the list around it
	whole *fragment // the document it was cut out of by its looks (YAML); nil where the cut is sure
	json  bool      // it is known to be JSON
	open  bool      // it is JSON that ends too early
}

// split cuts the text of a file at the limits of its objects without reading them, so that they can be read each by
// itself: in parallel, only when changed, and in spite of a broken neighbour. Documents are separated as in YAML, JSON
// values may also follow each other. A list is taken apart when it has the shape that kubectl writes; otherwise it
// stays one fragment. The fragments share the memory of text.
func split(text []byte) []fragment {
	var out []fragment
	for _, doc := range documents(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))) {
		doc.doc = number(out)
		if doc.trimLeft().text[0] == '{' {
			out = append(out, splitJSON(doc)...)
		} else {
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

// documents cuts at lines that begin with "---" or "...", which no YAML text and no JSON can have inside a document.
// Those with nothing but comments, directives and blanks are left out.
func documents(text []byte) []fragment {
	var out []fragment
	begin, line, start := 0, 1, 1
	flush := func(end int) {
		if doc := text[begin:end]; !blank(doc) {
			out = append(out, fragment{text: doc, line: start})
		}
	}
	for at := 0; at < len(text); line++ {
		end := lineEnd(text, at)
		if isMarker(text[at:end]) {
			flush(at)
			begin, start = at+3, line // what follows the marker on its line belongs to the document
		}
		at = end
	}
	flush(len(text))
	return out
}

// lineEnd is the offset behind the line that begins at at.
func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
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
