package inspect

import (
	"cmp"
	"slices"

	"github.com/portald/portald/platform/printable"
)

// withNode adds the column of the node that says so to those of a table.
func withNode[T any](d *Dial, node func(*T) string, columns []column[T]) []column[T] {
	if !d.many() {
		return columns
	}
	return slices.Insert(columns, 0, column[T]{name: "ON-NODE", cell: func(b []byte, row *T) []byte {
		return appendText(b, cmp.Or(node(row), none))
	}})
}

// onNode says on which node something is done, of several.
func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " on " + printable.Text(node)
}
