package yamldocs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

// ToJSON returns the document as JSON, as Kubernetes reads YAML: with the booleans and numbers of YAML 1.1. Of a key
// that is there twice the last value is used, and repeated says so. An error names the line, if it is not the first.
func (d Document) ToJSON() (text []byte, repeated []string, err error) {
	if d.JSON || d.Err != nil {
		return d.Text, nil, d.Err
	}
	if at := control(d.Text); at >= 0 {
		r, _ := utf8.DecodeRune(d.Text[at:])
		return nil, nil, fmt.Errorf("line %d: has the control character %U", d.lineAt(at), r)
	}
	value, err := d.parse(true)
	if _, twice := errors.AsType[*yaml.TypeError](err); twice {
		repeated = d.repeated(err)
		value, err = d.parse(false)
	}
	if err != nil {
		return nil, nil, errors.New(d.inFile(err.Error()))
	}
	if value, err = jsonable(value); err == nil {
		text, err = json.Marshal(value)
	}
	return text, repeated, err
}

// parse returns the value of a document, which must be all that is in the text.
func (d Document) parse(strict bool) (value any, err error) {
	in := yaml.NewDecoder(bytes.NewReader(d.Text))
	in.SetStrict(strict)
	first := in.Decode(&value)
	if _, twice := errors.AsType[*yaml.TypeError](first); first != nil && !twice {
		if errors.Is(first, io.EOF) {
			return nil, nil // comments
		}
		return nil, first
	}
	var more any
	switch rest := in.Decode(&more); {
	case rest == nil:
		return nil, errors.New("the character U+2028, U+2029 or U+0085 ends a line before ---; write \\n there")
	case !errors.Is(rest, io.EOF):
		return nil, fmt.Errorf("%w: the document ends above; indent this line as those, or write --- between two documents",
			rest)
	}
	return value, first
}

// control is where text has a character that YAML does not allow; negative: nowhere.
func control(text []byte) int {
	return bytes.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r < 0xa0 && r != 0x85
	})
}

// lineNumber finds the line in a message of the YAML library, which counts from 0 in messages of its parser.
var lineNumber = regexp.MustCompile(`line (\d+)(: did not find expected)?`)

// inFile changes line numbers in a message about a document to line numbers of the file, and joins its lines.
func (d Document) inFile(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	return lineNumber.ReplaceAllStringFunc(message, func(found string) string {
		parts := lineNumber.FindStringSubmatch(found)
		n, _ := strconv.Atoi(parts[1])
		if parts[2] != "" {
			n++
		}
		return "line " + strconv.Itoa(n+d.Line-1) + parts[2]
	})
}

// jsonable is a value of the YAML library with keys that JSON can have. It may change the value.
func jsonable(value any) (any, error) {
	var err error
	switch value := value.(type) {
	case []any:
		for i := range value {
			if value[i], err = jsonable(value[i]); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		out := make(map[string]any, len(value))
		for key, field := range value {
			name := fmt.Sprint(key)
			if _, twice := out[name]; key == nil || twice {
				return nil, fmt.Errorf("key %v: is empty, or there twice as text and not as text; put keys into quotes", key)
			}
			if out[name], err = jsonable(field); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}
