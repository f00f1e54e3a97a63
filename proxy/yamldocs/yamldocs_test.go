package yamldocs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// read returns the contents of a file, a line for each document, or its error.
func read(raw string) (out []string) {
	for _, d := range Split([]byte(raw)) {
		text, repeated, err := d.ToJSON()
		for _, r := range repeated {
			out = append(out, d.Place()+": warning: "+r)
		}
		if err != nil {
			text = []byte(err.Error())
		}
		out = append(out, d.Place()+": "+string(text))
	}
	return out
}

func TestDocuments(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"comments alone", "# a\n---\n# b\n...\n\n", nil},
		{"markers", "a: 1\n---\nb: 2\n--- # c\nc: 3\n---\t\nd: 4\n", []string{
			`document 1 (line 1): {"a":1}`, `document 2 (line 3): {"b":2}`,
			`document 3 (line 5): {"c":3}`, `document 4 (line 7): {"d":4}`,
		}},
		{"a document on the line of its marker", "--- {a: 1}\n--- !!map\nb: 2\n", []string{
			`document 1 (line 1): {"a":1}`, `document 2 (line 2): {"b":2}`,
		}},
		{"marks of the end", "a: 1\n...\nb: 2\n... # c\n---\nc: 3\n...\n", []string{
			`document 1 (line 1): {"a":1}`, `document 2 (line 3): {"b":2}`, `document 3 (line 6): {"c":3}`,
		}},
		{"directives", "%YAML 1.2\n# c\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n", []string{
			`document 1 (line 4): {"a":1}`, `document 2 (line 8): {"b":2}`,
		}},
		{"what only looks like a marker", "a: |\n  ---\n  ...\nb: '\n  --- x'\n---c: 1\n", []string{
			`document 1 (line 1): {"---c":1,"a":"---\n...\n","b":" --- x"}`,
		}},
		{"JSON", "{\"a\": 1}\n{\"b\": 2} {\"c\": 3}\n---\n{\"d\": 4}", []string{
			`document 1 (line 1): {"a": 1}`, `document 2 (line 2): {"b": 2}`, `document 3 (line 2): {"c": 3}`,
			`document 4 (line 4): {"d": 4}`,
		}},
		{"JSON cut off", "{\"a\": 1}\n{\"b\": ", []string{
			`document 1 (line 1): {"a": 1}`, `document 2 (line 2): the file ends inside it`,
		}},
		{"line ends of a Mac, and mixed ones", "a: 1\r---\rb: |\r  x\r\n  y\n---\r\nc: 3\r\n", []string{
			`document 1 (line 1): {"a":1}`, `document 2 (line 3): {"b":"x\ny\n"}`, `document 3 (line 7): {"c":3}`,
		}},
		{"byte order marks of files that were joined", "\ufeffa: 1\n\ufeff---\n\ufeffb: 2\n", []string{
			`document 1 (line 1): {"a":1}`, `document 2 (line 3): {"b":2}`,
		}},
		{"values of YAML 1.1", "a: yes\nb: 0755\nc: 1e3\nd: 12345678901\ne: ~\non: 010\n1: 1.0\n", []string{
			`document 1 (line 1): {"1":1,"a":true,"b":493,"c":1000,"d":12345678901,"e":null,"true":8}`,
		}},
		{"a scalar and a list", "a\n---\n- 1\n", []string{`document 1 (line 1): "a"`, `document 2 (line 3): [1]`}},

		{"a broken document between good ones", "a: 1\n---\nb: [\n---\nc: 3\n", []string{
			`document 1 (line 1): {"a":1}`,
			`document 2 (line 3): yaml: line 4: did not find expected node content`,
			`document 3 (line 5): {"c":3}`,
		}},
		{"two mappings without a marker", "{a: 1}\n{b: 2}\n", []string{
			`document 1 (line 1): yaml: line 2: did not find expected <document start>: the document ends above; ` +
				`indent this line as those, or write --- between two documents`,
		}},
		{"an indentation that is lost", "a: 0\n---\n  b: 1\n  c: 2\nd: 3\n", []string{
			`document 1 (line 1): {"a":0}`,
			`document 2 (line 3): yaml: line 5: did not find expected <document start>: the document ends above; ` +
				`indent this line as those, or write --- between two documents`,
		}},
		{"a marker behind another line end", "a: 1\u2028---\nb: 2\n", []string{
			`document 1 (line 1): the character U+2028, U+2029 or U+0085 ends a line before ---; write \n there`,
		}},
		{"text behind a mark of the end", "a: 1\n... b: 2\n", []string{
			`document 1 (line 1): yaml: line 2: did not find expected <document start>: the document ends above; ` +
				`indent this line as those, or write --- between two documents`,
		}},
		{"a tab", "a:\n\tb: 1\n", []string{
			`document 1 (line 1): yaml: line 2: found character that cannot start any token`,
		}},
		{"NUL", "a: 1\nb: \x00\n---\nc: 3\n", []string{
			`document 1 (line 1): line 2: has the control character U+0000`, `document 2 (line 4): {"c":3}`,
		}},
		{"only NULs, as after a crash of the host", strings.Repeat("\x00", 512), []string{
			`document 1 (line 1): line 1: has the control character U+0000`,
		}},
		{"Latin-1", "a: 1\n---\n\nb: \xe9\n", []string{
			`document 1 (line 1): {"a":1}`, `document 2 (line 3): line 4: is not UTF-8`,
		}},
		{"Latin-1 in JSON", "{\"a\": \"\xe9\"}", []string{`document 1 (line 1): line 1: is not UTF-8`}},
		{"UTF-16 that is cut off", "a\x00:\x00 \x00\n\x001\x00\n", []string{
			`document 1 (line 1): line 2: is not UTF-16LE, which the file begins with; write it in UTF-8`,
		}},
		{"half of a pair in UTF-16", "\xfe\xff\x00a\xd8\x00\x00b", []string{
			`document 1 (line 1): line 1: is not UTF-16BE, which the file begins with; write it in UTF-8`,
		}},

		{"a key twice", "x: 1\n---\na: 1\nb: {c: 1, d: 2, c: 3}\na: 4\n", []string{
			`document 1 (line 1): {"x":1}`,
			`document 2 (line 3): warning: line 5: key "a" is there twice`,
			`document 2 (line 3): warning: line 4: key "c" is there twice`,
			`document 2 (line 3): {"a":4,"b":{"c":3,"d":2}}`,
		}},
		{"a key of a merge that is replaced", "x: &x {a: 1, b: 2}\nw:\n  <<: *x\n  a: 3\n" +
			"z: {<<: [*x, {c: 1}], c: 2}\n", []string{
			`document 1 (line 1): {"w":{"a":3,"b":2},"x":{"a":1,"b":2},"z":{"a":1,"b":2,"c":2}}`,
		}},
		{"a merge that replaces a key", "x: &x {a: 1}\nz:\n  a: 3\n  <<: *x\n", []string{
			`document 1 (line 1): warning: line 4: << replaces the key "a" above it; write << first`,
			`document 1 (line 1): {"x":{"a":1},"z":{"a":1}}`,
		}},
		{"a key that is text and a number", "1: a\n'1': b\n", []string{
			`document 1 (line 1): key 1: is empty, or there twice as text and not as text; put keys into quotes`,
		}},
		{"a key without text", "? \n: a\n", []string{
			`document 1 (line 1): key <nil>: is empty, or there twice as text and not as text; put keys into quotes`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(c.text)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A file says the same in each encoding, with and without a byte order mark, and with each kind of line ends.
func TestEncodings(t *testing.T) {
	const text = "# ü\n---\na: 1\nb: 'ü 😀'\n---\n{\"c\": \"\u00fc\"}\n"
	want := read(text)
	if len(want) != 2 {
		t.Fatal(want)
	}
	for _, e := range []struct {
		name string
		encoding.Encoding
	}{
		{"UTF-8", unicode.UTF8},
		{"UTF-16LE", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
		{"UTF-16BE", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
		{"UTF-32LE", utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
		{"UTF-32BE", utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	} {
		for _, mark := range []string{"", byteOrderMark} {
			for _, end := range []string{"\n", "\r\n", "\r"} {
				raw, err := e.NewEncoder().String(mark + strings.ReplaceAll(text, "\n", end))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, read(raw)); diff != "" {
					t.Errorf("%s, mark %q, line end %q (-want +got)\n%s", e.name, mark, end, diff)
				}
			}
		}
	}
}

// A document that would become a thousand times as large when aliases are replaced is refused, and quickly.
func TestAliasesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("a0: &a0 [" + strings.Repeat("x,", 99) + "x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&text, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	_, _, err := Split([]byte(text.String()))[0].ToJSON()
	if err == nil || !strings.Contains(err.Error(), "excessive aliasing") {
		t.Error(err)
	}
}

// Depth ends in an error, not in the end of the process.
func TestDepthIsBounded(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", 1<<20), "a: " + strings.Repeat("{a: ", 1<<20), strings.Repeat("- ", 1<<20),
		strings.Repeat(`{"a":`, 1<<20) + "1" + strings.Repeat("}", 1<<20),
	} {
		if _, _, err := Split([]byte(text))[0].ToJSON(); err == nil {
			t.Errorf("%s…: no error", text[:9])
		}
	}
}

// FuzzSplit: of a file that the YAML library reads whole, the documents are the library's.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"a: 1\n---\nb: 2\n", "--- |\n a\n--- >\n b\n...\n---\n# c\n", "a: '\n b'\n...\n--- {c: [1, 2]}\n",
		"%YAML 1.1\n---\n- a\n", "\"a\\\n  b\"\n--- &x\nc: *x\n", "a: |+\n\n  b\n\n---\n", "{a: 1}\n{b: 2}",
		"[\n---\n]", "- - 1\n - 2\n", "? a\n--- \n: b\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if decoded, err := decodeText(raw); err != nil || !bytes.Equal(decoded, raw) ||
			bytes.ContainsAny(raw, "\u0085\u2028\u2029") {
			return // other encodings and line ends
		}
		want, ok := library(raw)
		if !ok {
			return
		}
		var got []string
		for _, d := range Split(raw) {
			if d.JSON {
				return // behind it may be another value, which YAML does not have
			}
			part, ok := library(d.Text)
			if !ok || len(part) > 1 {
				t.Fatalf("part %q of %q is not a document: %q", d.Text, raw, part)
			}
			got = append(got, part...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-library +got)\n%s", raw, diff)
		}
	})
}

// library are the documents with something in them as the YAML library reads a stream. False: it cannot.
func library(raw []byte) (out []string, ok bool) {
	in := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var doc yaml.Node
		if err := in.Decode(&doc); errors.Is(err, io.EOF) {
			return out, true
		} else if err != nil {
			return nil, false
		}
		if text := outline(doc.Content...); text != "!!null " {
			out = append(out, text)
		}
	}
}

func outline(nodes ...*yaml.Node) string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Tag+" "+n.Value+outline(n.Content...))
	}
	return strings.Join(out, ", ")
}
