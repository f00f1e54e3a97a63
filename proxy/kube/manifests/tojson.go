package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// toJSON returns a fragment as JSON. A duplicate key is a warning, and its last value is used. An error means that the
// text is not YAML.
func (f fragment) toJSON() (text []byte, warnings []string, err error) {
	if f.json || f.err != nil {
		return f.text, nil, f.err
	}
	text, strict := yaml.YAMLToJSONStrict(f.text)
	if strict != nil {
		if text, err = yaml.YAMLToJSON(f.text); err != nil {
			return nil, nil, errors.New(shiftLines(err.Error(), f.line))
		}
		warnings = []string{shiftLines(strict.Error(), f.line)}
	}
	if f.item == 0 {
		return text, warnings, nil
	}
	var one []json.RawMessage
	if err := json.Unmarshal(text, &one); err != nil || len(one) != 1 {
		return nil, nil, fmt.Errorf("read item %d of the list: it is not one item", f.item)
	}
	return one[0], warnings, nil
}

// shiftLines changes line numbers in a message about a fragment to those of the file, and joins its lines.
func shiftLines(message string, first int) string {
	message = strings.Join(strings.Fields(message), " ")
	return regexp.MustCompile(`line \d+`).ReplaceAllStringFunc(message, func(found string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(found, "line "))
		return "line " + strconv.Itoa(n+first-1)
	})
}
