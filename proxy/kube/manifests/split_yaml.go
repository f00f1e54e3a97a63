package manifests

import (
	"bytes"
	"slices"

	"go.yaml.in/yaml/v3"
)

// splitYAML returns the items of a document that is a list in block style, and another document whole. The text of an
// item keeps its dash, and is a list of one.
func splitYAML(doc fragment) []fragment {
	if !bytes.Contains(doc.text, []byte("items:")) {
		return []fragment{doc} // no need to parse it twice
	}
	lines := bytes.SplitAfter(doc.text, []byte("\n"))
	starts := itemLines(doc.text, lines)
	if starts == nil {
		return []fragment{doc}
	}
	last := len(starts) - 1
	list, ok := listHeader(lines[:starts[0]-1], lines[starts[last]-1:])
	if !ok {
		return []fragment{doc}
	}
	out := make([]fragment, last)
	for i := range out {
		text := bytes.Join(lines[starts[i]-1:starts[i+1]-1], nil)
		out[i] = fragment{text: text, doc: doc.doc, item: i + 1, line: doc.line + starts[i] - 1, list: list}
	}
	return out
}

// itemLines are the lines, from 1, that the items of a list begin at, and the one behind the last item. None: text is
// no list whose items have lines of their own, or they cannot be read one by one.
func itemLines(text []byte, lines [][]byte) (starts []int) {
	const otherBreaks = "\r\u0085\u2028\u2029" // that YAML has beside the one that lines are split at
	var root yaml.Node
	if bytes.ContainsAny(text, otherBreaks) || yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode || hasAlias(&root) {
		return nil
	}
	fields := root.Content[0].Content
	for i := 0; i < len(fields); i += 2 {
		key, value := fields[i], fields[i+1]
		if key.Value != "items" || value.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range value.Content {
			if !dashAt(lines, item.Line, value.Column) || len(starts) > 0 && item.Line <= starts[len(starts)-1] {
				return nil
			}
			starts = append(starts, item.Line)
		}
		if i+2 < len(fields) {
			return append(starts, fields[i+2].Line)
		}
		return append(starts, len(lines)+1)
	}
	return nil
}

// dashAt tells whether an item begins in a line: at the column, both from 1, with a dash.
func dashAt(lines [][]byte, line, column int) bool {
	if line > len(lines) || column > len(lines[line-1]) {
		return false
	}
	before, rest := lines[line-1][:column-1], lines[line-1][column-1:]
	return len(bytes.TrimLeft(before, " ")) == 0 && rest[0] == '-'
}

func hasAlias(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return true
	}
	for _, c := range n.Content {
		if hasAlias(c) {
			return true
		}
	}
	return false
}

// listHeader is what a document says around its items. False: it says that it is no list, or it is not clear what.
func listHeader(before, after [][]byte) (typeMeta, bool) {
	around := fragment{text: bytes.Join(slices.Concat(before, after), nil)}
	text, warnings, err := around.toJSON()
	if err != nil || len(warnings) > 0 {
		return typeMeta{}, false
	}
	head, err := headerOf(text)
	return head.typeMeta, err == nil && head.isList()
}
