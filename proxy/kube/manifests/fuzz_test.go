package manifests

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/proxy/yamldocs"
)

// FuzzDecode: no file makes the reader panic or loop, and what it takes in has a name.
func FuzzDecode(f *testing.F) {
	cluster, err := os.ReadFile("testdata/cluster.yaml")
	check(f, err)
	f.Add(cluster[:3000])
	for _, seed := range []string{
		`{"apiVersion":"v1","kind":"List","items":[{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"}},`,
		`{"items":[`,
		"apiVersion: v1\nkind: List\nitems:\n- a: \"x\n- y\"\n", "--- {a: b}\n...\n---\n[]", "{a: '}'}",
		"items:\n  - - 1\n", "- \n", "{}{}x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, fragment := range split(text) {
			for _, d := range decode(fragment, true) {
				if d.object != nil && (d.object.GetName() == "" || d.object.GetName() != d.key.Name || d.err != nil) {
					t.Errorf("taken in: %+v", d)
				}
			}
		}
	})
}

// FuzzSplitYAML checks that the parts of a document have together what the whole has.
func FuzzSplitYAML(f *testing.F) {
	cluster, err := os.ReadFile("testdata/cluster.yaml")
	check(f, err)
	f.Add(cluster[:3000])
	const list = "kind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: a}}\n"
	for _, more := range []string{
		"- &x {apiVersion: v1, kind: Node, metadata: {name: b}}\n- *x\n", "- \"\n- \"\n", "- a: |\n   b\n# c\n\n- 1\n",
		"items: []\n",
		"- 1\r- 2\n", "kind: Pod\n", "metadata: \"\nitems:\n- x\n\"\n", "- - 1\n  - 2\n", "-\n- {a: [\n- 1]}\n",
		"- 0\nkind:", "kind:", "- &x\n", "- a\u2028- b\n", "- !!str\n  a\n", "# c\n- ? a\n  : b\n? kind\n: List\n",
		"---\n- a\n", "...\n- a\n",
	} {
		f.Add([]byte(list + more))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, document := range yamldocs.Split(text) {
			doc := fragment{Document: document}
			if _, _, err := doc.toJSON(); err != nil || doc.JSON {
				continue
			}
			var parts []decoded
			for _, part := range splitYAML(doc) {
				parts = append(parts, decode(part, true)...)
			}
			if diff := cmp.Diff(outline(decode(doc, true)), outline(parts)); diff != "" {
				t.Errorf("%q (-whole +parts)\n%s", doc.Text, diff)
			}
		}
	})
}

func outline(of []decoded) (out []string) {
	for _, d := range of {
		out = append(out, fmt.Sprintf("%s %s %v", d.key, d.other, d.err))
	}
	return out
}
