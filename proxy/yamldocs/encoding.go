package yamldocs

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// byteOrderMark is U+FEFF in UTF-8.
const byteOrderMark = "\ufeff"

// encodings are those that YAML has beside UTF-8, each with what a file in it begins with, in the order of asking. Of
// the beginnings without a byte order mark "?" is any byte: the first character of YAML is one of ASCII.
var encodings = []struct {
	name   string
	begins []string
	encoding.Encoding
}{
	{"UTF-32BE", []string{"\x00\x00\xfe\xff", "\x00\x00\x00?"}, utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	{"UTF-32LE", []string{"\xff\xfe\x00\x00", "?\x00\x00\x00"}, utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
	{"UTF-16BE", []string{"\xfe\xff", "\x00?"}, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
	{"UTF-16LE", []string{"\xff\xfe", "?\x00"}, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
}

// decodeText returns the contents of a file as UTF-8 with lines that end in \n, without byte order marks: files that
// were joined have some inside. Text that begins as UTF-8 is not checked to be all of it.
func decodeText(raw []byte) ([]byte, error) {
	text := raw
	for _, e := range encodings {
		if !beginsWith(raw, e.begins) {
			continue
		}
		var err error
		if text, err = e.NewDecoder().Bytes(raw); err != nil {
			return nil, fmt.Errorf("read as %s: %w", e.name, err)
		}
		if at := bytes.IndexRune(text, utf8.RuneError); at >= 0 { // what cannot be decoded becomes one
			return nil, fmt.Errorf("line %d: is not %s, which the file begins with; write it in UTF-8",
				1+bytes.Count(text[:at], []byte("\n")), e.name)
		}
		break
	}
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	for _, end := range []string{"\r\n", "\r", "\n" + byteOrderMark} {
		if bytes.Contains(text, []byte(end)) { // replacing copies
			text = bytes.ReplaceAll(text, []byte(end), []byte("\n"))
		}
	}
	return text, nil
}

func beginsWith(raw []byte, patterns []string) bool {
	for _, p := range patterns {
		matches := len(raw) >= len(p)
		for i := 0; matches && i < len(p); i++ {
			matches = p[i] == '?' || p[i] == raw[i]
		}
		if matches {
			return true
		}
	}
	return false
}
