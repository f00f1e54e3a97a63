package manifests

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// splitYAML returns the items of a document that is a list in block style, and any other document as it is. The text of
// an item includes its dash, and so is a list of one.
func splitYAML(doc fragment) []fragment {
	if !bytes.Contains(doc.Text, []byte("items:")) {
		return []fragment{doc} // no need to parse it twice
	}
	lines := bytes.SplitAfter(doc.Text, []byte("\n"))
	starts := itemLines(doc.Text, lines)
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
		item := doc.Document
		item.Text, item.Line = bytes.Join(lines[starts[i]-1:starts[i+1]-1], nil), doc.Line+starts[i]-1
		out[i] = fragment{item, i + 1, list}
	}
	return out
}

// itemLines are the lines, from 1, at which the items of a list begin, and the line behind the last item. None: text is
// not a list in block style, or its items cannot be decoded one by one.
func itemLines(text []byte, lines [][]byte) (starts []int) {
	items, end := itemsOf(text, len(lines)+1)
	if items == nil {
		return nil
	}
	for _, item := range items.Content {
		if !dashAt(lines, item.Line, items.Column) || len(starts) > 0 && item.Line <= starts[len(starts)-1] {
			return nil
		}
		starts = append(starts, item.Line)
	}
	return append(starts, end)
}

// itemsOf is the value of the field items of a document, and the line behind it: that of the next field, or end. Nil:
// there is no such list, more than one document, or the YAML library counts lines that do not end in \n.
func itemsOf(text []byte, end int) (*yaml.Node, int) {
	var doc, more yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if bytes.ContainsAny(text, "\u0085\u2028\u2029") || in.Decode(&doc) != nil || !errors.Is(in.Decode(&more), io.EOF) ||
		hasAlias(&doc) {
		return nil, 0
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, 0
	}
	fields := doc.Content[0].Content // key, value, key, …
	for i := 0; i < len(fields); i += 2 {
		if fields[i].Value == "items" && fields[i+1].Kind == yaml.SequenceNode && len(fields[i+1].Content) > 0 {
			if i+2 < len(fields) {
				end = fields[i+2].Line
			}
			return fields[i+1], end
		}
	}
	return nil, 0
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

// listHeader is the kind of a document by the lines around its items. False: it is not a list, or they are invalid.
func listHeader(before, after [][]byte) (typeMeta, bool) {
	var around fragment
	around.Text = bytes.Join(slices.Concat(before, after), nil)
	text, warnings, err := around.toJSON()
	if err != nil || len(warnings) > 0 {
		return typeMeta{}, false
	}
	head, err := headerOf(text)
	return head.typeMeta, err == nil && head.isList()
}
