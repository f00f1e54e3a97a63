// Package yamldocs reads the documents of YAML and JSON files as JSON: in any encoding that YAML has, with any line
// ends, and each by itself, so that one that cannot be read hides no other. Nothing in a file is left out without an
// error. It does not know what documents mean.
package yamldocs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Document is a document of a file. Documents of comments alone are none.
type Document struct {
	Text   []byte // UTF-8, with lines that end in \n
	Number int    // in the file, from 1
	Line   int    // that Text begins at, from 1
	JSON   bool   // Text is one JSON value; else YAML
	Err    error  // why Text cannot be read; nil: not known yet
}

// white are the characters that YAML separates words and lines by.
const white = " \t\n"

// Place is where in the file it is.
func (d Document) Place() string { return fmt.Sprintf("document %d (line %d)", d.Number, d.Line) }

// Split returns the documents in the contents of a file, without parsing YAML. Documents are separated as YAML says: by
// lines that begin with --- or are "...", which no document can have inside. JSON values may also follow each other.
// A file in an encoding that cannot be read is one document with an error.
func Split(raw []byte) (out []Document) {
	text, err := decodeText(raw)
	if err != nil {
		return []Document{{Text: raw, Number: 1, Line: 1, Err: err}}
	}
	for _, d := range separate(text) {
		if d.Number = len(out) + 1; d.Err == nil && d.trimLeft().Text[0] == '{' {
			out = append(out, d.values()...)
		} else {
			out = append(out, d)
		}
	}
	return out
}

// separate cuts a text at the markers between documents.
func separate(text []byte) (out []Document) {
	end := func(d Document) {
		if blank(d.Text) {
			return
		}
		if at := invalidUTF8(d.Text); at >= 0 {
			d.Err = fmt.Errorf("line %d: is not UTF-8", d.lineAt(at))
		}
		out = append(out, d)
	}
	from, line := 0, 1 // of the document
	at, number := 0, 1 // of the line
	for l := range bytes.Lines(text) {
		next := at + len(l)
		switch {
		case marks(l, "---"):
			end(Document{Text: text[from:at], Line: line})
			if from, line = at, number; blank(l[len("---"):]) { // else the document begins behind the marker
				from, line = next, number+1
			}
		case marks(l, "...") && blank(l[len("..."):]):
			end(Document{Text: text[from:at], Line: line})
			from, line = next, number+1
		}
		at, number = next, number+1
	}
	end(Document{Text: text[from:], Line: line})
	return out
}

// marks tells whether a line is, or begins with, a marker between documents.
func marks(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(white, rest[0]) >= 0)
}

// blank tells whether text has comments, directives and white space only.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.Trim(line, white)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// invalidUTF8 is where text is not UTF-8; negative: nowhere.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for at := 0; ; {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
}

// lineAt is the line in the file of a place in the text.
func (d Document) lineAt(at int) int { return d.Line + bytes.Count(d.Text[:at], []byte("\n")) }

// Cut splits the text of d in two.
func (d Document) Cut(at int) (before, after Document) {
	before, after = d, d
	before.Text, after.Text = d.Text[:at], d.Text[at:]
	after.Line = d.lineAt(at)
	return before, after
}

// trimLeft is d without leading white space.
func (d Document) trimLeft() Document {
	_, after := d.Cut(len(d.Text) - len(bytes.TrimLeft(d.Text, white)))
	return after
}

// errCutOff is about JSON that lacks its end.
var errCutOff = errors.New("the file ends inside it")
