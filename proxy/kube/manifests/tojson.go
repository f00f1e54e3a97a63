package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// toJSON returns what a fragment says, as JSON. A key that is there twice is a warning, and its last value counts. An
// error means that the text is no YAML.
func (f fragment) toJSON() (text []byte, warnings []string, err error) {
	if f.json {
		return f.text, nil, nil
	}
	if f.open {
		return nil, nil, errors.New("the file ends inside it")
	}
	text, strict := yaml.YAMLToJSONStrict(f.text)
	if strict != nil {
		if text, err = yaml.YAMLToJSON(f.text); err != nil {
			return nil, nil, errors.New(shiftLines(err.Error(), f.line))
		}
		warnings = []string{shiftLines(strict.Error(), f.line)}
	}
	if f.whole == nil {
		return text, warnings, nil
	}
	// Cut out with its dash, it is a list of one.
	item, isList := bytes.CutPrefix(text, []byte("["))
	item, isClosed := bytes.CutSuffix(item, []byte("]"))
	if !isList || !isClosed || !json.Valid(item) {
		return nil, nil, errors.New("is no item of a list")
	}
	return item, warnings, nil
}

// shiftLines makes the line numbers in a message about a fragment those of the file, and the message one line.
func shiftLines(message string, first int) string {
	message = strings.Join(strings.Fields(message), " ")
	return regexp.MustCompile(`line \d+`).ReplaceAllStringFunc(message, func(found string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(found, "line "))
		return "line " + strconv.Itoa(n+first-1)
	})
}
