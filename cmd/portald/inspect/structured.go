package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/portald/portald/platform/printable"
)

// asJSONPath begins the output that is a template of JSONPath, as kubectl has it: jsonpath='{[*].client}'.
const asJSONPath = "jsonpath="

// structured tells whether an output is the JSON of rows, or made of it.
func structured(output string) bool {
	return output == outputJSON || output == outputYAML || strings.HasPrefix(output, asJSONPath)
}

// checkOutput refuses a template that cannot be read.
func checkOutput(output string) error {
	_, err := templateOf(output)
	return err
}

func templateOf(output string) (*jsonpath.JSONPath, error) {
	template := jsonpath.New("output").AllowMissingKeys(true)
	if err := template.Parse(strings.TrimPrefix(output, asJSONPath)); err != nil {
		return nil, fmt.Errorf("must be a template of JSONPath, as in jsonpath='{[*].client}': %w", err)
	}
	return template, nil
}

// encode prints what print writes, which is JSON, as the output wants it.
func encode(out io.Writer, output string, print func(io.Writer) error) error {
	if output == outputJSON {
		return print(out)
	}
	var text bytes.Buffer
	if err := print(&text); err != nil {
		return err
	}
	if output == outputYAML {
		text, err := yaml.JSONToYAML(text.Bytes())
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return encodeByPath(out, output, text.Bytes())
}

func encodeByPath(out io.Writer, output string, text []byte) error {
	template, err := templateOf(output)
	if err != nil {
		return err
	}
	var rows any
	if err := json.Unmarshal(text, &rows); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	var found strings.Builder
	if err := template.Execute(&found, rows); err != nil {
		return usage("--output %s: %w", output, err)
	}
	_, err = fmt.Fprintln(out, printable.Lines(found.String()))
	return err
}
