package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/portald/portald/proxy/yamldocs"
)

// fragment is the text of one object in a file: a document, or an item of a list.
type fragment struct {
	yamldocs.Document          // of an item in YAML: a list of one
	item              int      // number in its list, from 1; 0: no item
	list              typeMeta // of the list around it
}

// split returns the objects in the contents of a file without decoding them, so that they can be decoded in parallel,
// only when changed, and though others in the file are invalid.
func split(raw []byte) (out []fragment) {
	for _, doc := range yamldocs.Split(raw) {
		f := fragment{Document: doc}
		switch {
		case doc.Err != nil:
			out = append(out, f)
		case doc.JSON:
			out = append(out, splitJSON(f)...)
		default:
			out = append(out, splitYAML(f)...)
		}
	}
	return out
}

// splitJSON returns the items of a document that is a list, and any other document as it is. It searches the text of
// the list for the text of each item, to know its line.
func splitJSON(doc fragment) []fragment {
	var list struct {
		typeMeta
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(doc.Text, &list) != nil || !list.isList() || len(list.Items) == 0 {
		return []fragment{doc}
	}
	out := make([]fragment, len(list.Items))
	rest := doc.Document
	for i, text := range list.Items {
		out[i] = fragment{item: i + 1, list: list.typeMeta}
		_, rest = rest.Cut(bytes.Index(rest.Text, text))
		out[i].Document, rest = rest.Cut(len(text))
	}
	return out
}

// toJSON returns a fragment as JSON. Keys that are there twice are warnings. An error means that the text is not YAML.
func (f fragment) toJSON() (text []byte, warnings []string, err error) {
	text, warnings, err = f.ToJSON()
	for i := range warnings {
		warnings[i] += "; the last one is used"
	}
	if err != nil || f.item == 0 || f.JSON {
		return text, warnings, err
	}
	var one []json.RawMessage
	if err := json.Unmarshal(text, &one); err != nil || len(one) != 1 {
		return nil, nil, fmt.Errorf("read item %d of the list: it is not one item", f.item)
	}
	return one[0], warnings, nil
}
