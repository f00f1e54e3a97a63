package yamldocs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// values are the JSON values of a document that begins like JSON. The rest from the first text that is not JSON is one
// document: a YAML flow mapping begins like JSON too.
func (d Document) values() (out []Document) {
	if json.Valid(d.Text) { // one value, as mostly: quicker to see than to find where values end
		d.JSON = true
		return []Document{d.trimLeft()}
	}
	values := json.NewDecoder(bytes.NewReader(d.Text))
	for rest := d.trimLeft(); !blank(rest.Text); rest = rest.trimLeft() {
		var value json.RawMessage
		if err := values.Decode(&value); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				rest.Err = errCutOff
			}
			return append(out, rest)
		}
		var one Document
		one, rest = rest.Cut(int(values.InputOffset()) - (len(d.Text) - len(rest.Text)))
		one.JSON = true
		out = append(out, one)
		rest.Number++
	}
	return out
}
