package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/portald/portald/proxy/connlog"
)

// appendDict writes a record as a paragraph: what it has, a field a line, under the names of its JSON, such as
// attempts.0.endpoint.
func appendDict(b []byte, l *connlog.Line) []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // a Line is made of texts and finite numbers
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return append(appendFields(b, d, ""), '\n')
}

// appendFields writes the value that d reads next; name is its own, empty for the whole record.
func appendFields(b []byte, d *json.Decoder, name string) []byte {
	switch value := next(d).(type) {
	case json.Delim:
		for i := 0; d.More(); i++ {
			part := fmt.Sprint(i)
			if value == '{' {
				part = next(d).(string)
			}
			if name != "" {
				part = name + "." + part
			}
			b = appendFields(b, d, part)
		}
		next(d)
	case nil:
	case string:
		if value != "" {
			b = append(appendText(fmt.Appendf(b, "%-26s ", name), value), '\n')
		}
	default:
		b = fmt.Appendf(b, "%-26s %v\n", name, value)
	}
	return b
}

func next(d *json.Decoder) json.Token {
	token, err := d.Token()
	if err != nil {
		panic(err) // encoding/json wrote it
	}
	return token
}
