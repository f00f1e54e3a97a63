package printable

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// hostile are texts that do something to a terminal, or to the reader.
var hostile = []string{
	"\x1b[2J", "\x00", "\a", "a\rb", "\x7f", "\u009b31m", "\x9b31m", "\u202egnp", "\u2066a\u2069", "\u200b",
	"\u2028", "\ufeff", "\u061c", "\u00a0", "\U000e0041", "\xff\xfe", "a\nb\tc", "\ue000",
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune("\n\t", r) }

func TestTexts(t *testing.T) {
	for text, want := range map[string]string{
		"shop/cart → ü": "shop/cart → ü", "": "", "a\nb\tc": `a\nb\tc`, "\x1b[2J": `\x1b[2J`, "\u202ea": `\u202ea`, "\x9b1": `\x9b1`,
		"\U000e0041": `\U000e0041`, "\ufffd": "\ufffd",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Lines("a\tb\n\x1bc\r\n"); got != "a\tb\n\\x1bc\\r\n" {
		t.Errorf("lines: %q", got)
	}
	for _, text := range hostile {
		for _, got := range []string{Text("x" + text), string(Append([]byte("ü"), text)), Lines(text)} {
			if strings.ContainsFunc(got, unprintable) {
				t.Errorf("%q: %q", text, got)
			}
		}
	}
}

// The meaning of JSON stays.
func TestJSON(t *testing.T) {
	for _, text := range append(hostile, "plain", "ü → \"\\") {
		encoded, err := json.MarshalIndent(map[string]string{text: text}, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		got := JSON(encoded)
		if strings.ContainsFunc(string(got), unprintable) {
			t.Errorf("%q: %q", text, got)
		}
		var before, after map[string]string
		if json.Unmarshal(encoded, &before) != nil || json.Unmarshal(got, &after) != nil || len(after) != 1 {
			t.Errorf("%q: %q", text, got)
		}
		for k := range before {
			if after[k] != before[k] {
				t.Errorf("%q: %q", text, got)
			}
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	line := []byte(strings.Repeat(`{"client":"10.0.0.1:4711","service":"shop/cart:http"},`, 12) + "\n")
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		JSON(line)
	}
}
