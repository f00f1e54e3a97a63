package inspect

import (
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printableJSON escapes what is not printable in a line of JSON: encoding/json leaves characters beyond ASCII as they
// are, and some of them are commands to terminals.
func printableJSON(line []byte) []byte {
	if isASCII(line) {
		return line
	}
	out := make([]byte, 0, len(line)+16)
	for _, r := range string(line) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
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
