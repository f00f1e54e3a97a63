// Package printable escapes text of others, so that it does nothing to a terminal, nor misleads its reader: control
// characters, marks that turn the direction of writing, invisible characters, and bytes that are no UTF-8.
//
//	printable.Text("a\x1b[31mb") // a\x1b[31mb, in one line, in which the escape is four characters
package printable

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// ASCII tells whether a text has printable characters of ASCII alone, as almost all have.
func ASCII[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Append appends a text to b, as one line, with Go's escapes.
func Append(b []byte, text string) []byte { return appendBut(b, text, "") }

// Text is a text as Append appends it.
func Text(text string) string {
	if ASCII(text) {
		return text
	}
	return string(Append(nil, text))
}

// Lines is the same of a text that has lines and columns: the ends of lines, and tabs, stay.
func Lines(text string) string {
	if ASCII(text) {
		return text
	}
	return string(appendBut(nil, text, "\n\t"))
}

func appendBut(b []byte, text, kept string) []byte {
	if ASCII(text) {
		return append(b, text...)
	}
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !isEncoded(text[i:]):
			b = fmt.Appendf(b, `\x%02x`, text[i])
		case unicode.IsPrint(r), keeps(kept, r):
			b = utf8.AppendRune(b, r)
		default:
			quoted := strconv.QuoteRune(r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
	}
	return b
}

func keeps(kept string, r rune) bool {
	for _, k := range kept {
		if k == r {
			return true
		}
	}
	return false
}

// isEncoded tells whether s begins with a rune, and not with a byte that is none.
func isEncoded(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size > 1
}

// JSON escapes what is not printable in encoded JSON, as JSON does: encoding/json leaves characters beyond ASCII as
// they are. It returns encoded itself if there is nothing to escape.
func JSON(encoded []byte) []byte {
	if !escapes(encoded) {
		return encoded
	}
	out := make([]byte, 0, len(encoded)+64)
	for _, r := range string(encoded) {
		switch {
		case isSpace(r) || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// escapes tells whether JSON may have something to escape.
func escapes(encoded []byte) bool {
	for _, c := range encoded {
		if c > '~' || c < ' ' && !isSpace(rune(c)) {
			return true
		}
	}
	return false
}

// isSpace tells whether JSON may have a control character between its values.
func isSpace(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }
