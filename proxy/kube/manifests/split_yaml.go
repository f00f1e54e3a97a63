package manifests

import (
	"bytes"

	"sigs.k8s.io/yaml"
)

// splitYAML takes a document apart that is a list in block style: "items:" at the margin, and items that begin with a
// dash all at one column. An item's text keeps its dash, and is a list of one. That cut is wrong only for text that
// runs across items (a quoted string that has a dash at that column, an alias to another item); then an item cannot be
// read, and the reader takes the document whole.
func splitYAML(doc fragment) []fragment {
	head, items, tail := cutItems(doc)
	if items == nil {
		return []fragment{doc}
	}
	var around header // the two parts each by itself, or what looked like items stands inside of something else
	if yaml.Unmarshal(head, &around) != nil || yaml.Unmarshal(tail, &around) != nil || around.Items != nil || !around.isList() {
		return []fragment{doc}
	}
	for i := range items {
		items[i].doc, items[i].item, items[i].list, items[i].whole = doc.doc, i+1, around.typeMeta, &doc
	}
	return items
}

// cutItems returns the text before the first item, the items, and the text behind the last. No items: it has another shape.
func cutItems(doc fragment) (head []byte, items []fragment, tail []byte) {
	text := doc.text
	begin, indent, number := 0, -1, doc.line
	for at := 0; at < len(text); number++ {
		end := lineEnd(text, at)
		line := bytes.TrimRight(text[at:end], " \t\r\n")
		body := bytes.TrimLeft(line, " ")
		column := len(line) - len(body)
		dash := len(body) > 0 && body[0] == '-' && (len(body) == 1 || body[1] == ' ')
		switch {
		case begin == 0: // in the head
			if bytes.HasPrefix(line, []byte("items:")) && blank(line[len("items:"):]) {
				begin = end
				head = text[:at]
			}
		case len(body) == 0 || body[0] == '#' || indent >= 0 && column > indent: // inside an item, or between two
		case dash && (indent < 0 || column == indent):
			if len(items) > 0 {
				items[len(items)-1].text = text[begin:at]
			}
			items = append(items, fragment{line: number})
			begin, indent = at, column
		case column == 0 && indent >= 0:
			items[len(items)-1].text = text[begin:at]
			return head, items, text[at:]
		default:
			return nil, nil, nil
		}
		at = end
	}
	if len(items) > 0 {
		items[len(items)-1].text = text[begin:]
	}
	return head, items, nil
}
