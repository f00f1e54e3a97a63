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

// toJSON returns what a fragment says, as JSON. A key that is there twice is a warning, and its last value counts. An
// error means that the text is no YAML.
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

// shiftLines makes the line numbers in a message about a fragment those of the file, and the message one line.
func shiftLines(message string, first int) string {
	message = strings.Join(strings.Fields(message), " ")
	return regexp.MustCompile(`line \d+`).ReplaceAllStringFunc(message, func(found string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(found, "line "))
		return "line " + strconv.Itoa(n+first-1)
	})
}
