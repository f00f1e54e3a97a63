package yamldocs

import (
	"errors"
	"fmt"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// repeated are the keys that are there twice in their mapping, of a document of which strict parsing said so: it also
// counts a key that replaces one from a merge key, as merge keys are meant to be used.
func (d Document) repeated(strict error) (out []string) {
	var doc yaml.Node
	if yaml.Unmarshal(d.Text, &doc) == nil {
		d.eachRepeated(&doc, &out)
		return out
	}
	if said, ok := errors.AsType[*yamlv2.TypeError](strict); ok {
		for _, line := range said.Errors {
			out = append(out, d.inFile(line))
		}
	}
	return out
}

func (d Document) eachRepeated(n *yaml.Node, out *[]string) {
	if n.Kind == yaml.MappingNode {
		seen := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			line := d.Line + key.Line - 1
			if key.Tag == "!!merge" {
				for _, name := range merged(n.Content[i+1]) {
					if seen[name] {
						*out = append(*out, fmt.Sprintf("line %d: << replaces the key %q above it; write << first", line, name))
					}
				}
				continue
			}
			if key.Kind == yaml.ScalarNode && seen[key.Value] {
				*out = append(*out, fmt.Sprintf("line %d: key %q is there twice", line, key.Value))
			}
			seen[key.Value] = true
		}
	}
	for _, c := range n.Content {
		d.eachRepeated(c, out)
	}
}

// merged are the keys that the value of a merge key has itself.
func merged(value *yaml.Node) (out []string) {
	switch value.Kind {
	case yaml.AliasNode:
		return merged(value.Alias)
	case yaml.SequenceNode:
		for _, one := range value.Content {
			out = append(out, merged(one)...)
		}
	case yaml.MappingNode:
		for i := 0; i < len(value.Content); i += 2 {
			out = append(out, value.Content[i].Value)
		}
	}
	return out
}
