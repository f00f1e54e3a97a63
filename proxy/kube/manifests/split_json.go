package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// splitJSON returns the JSON values of a document that begins like JSON, and the items in place of a list. The rest
// from the first text that is not JSON is one fragment: a YAML flow mapping begins like JSON too.
func splitJSON(doc fragment) (out []fragment) {
	values := json.NewDecoder(bytes.NewReader(doc.text))
	for rest := doc.trimLeft(); !blank(rest.text); rest = rest.trimLeft() {
		var found list
		err := values.Decode(&found)
		if _, otherShape := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !otherShape {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				rest.err = errors.New("the file ends inside it")
			}
			return append(out, rest)
		}
		var one fragment
		one, rest = rest.cutAt(int(values.InputOffset()) - (len(doc.text) - len(rest.text)))
		one.json = true
		if err == nil && found.isList() && len(found.Items) > 0 {
			out = append(out, found.split(one)...)
		} else {
			out = append(out, one)
		}
		rest.doc++
	}
	return out
}

// list is a list whose items are not decoded.
type list struct {
	typeMeta
	Items []json.RawMessage `json:"items"`
}

// split returns a fragment for each item; it finds the text of items in doc to know their lines.
func (l list) split(doc fragment) []fragment {
	out := make([]fragment, len(l.Items))
	rest := doc
	for i, text := range l.Items {
		_, rest = rest.cutAt(bytes.Index(rest.text, text))
		out[i], rest = rest.cutAt(len(text))
		out[i].item, out[i].list = i+1, l.typeMeta
	}
	return out
}

// cutAt splits the text of f in two.
func (f fragment) cutAt(at int) (before, after fragment) {
	before, after = f, f
	before.text, after.text = f.text[:at], f.text[at:]
	after.line += bytes.Count(before.text, []byte("\n"))
	return before, after
}

// trimLeft is f without leading white space.
func (f fragment) trimLeft() fragment {
	_, after := f.cutAt(len(f.text) - len(bytes.TrimLeft(f.text, " \t\r\n")))
	return after
}
