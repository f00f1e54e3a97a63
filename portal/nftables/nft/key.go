package nft

import (
	"strings"

	"github.com/portald/portald/platform/nfnl"
)

// Key is an expression, or a concatenation of several: the key of a set, or the data of a map.
type Key []Expression

// text is the concatenation, as rules have it.
func (k Key) text() string { return k.join(func(e Expression) string { return e.text }) }

// types are its data types, as declarations have them.
func (k Key) types() string { return k.join(func(e Expression) string { return e.datatype.name }) }

// Values are the values of an element's keys.
func (k Key) Values(e Element) string {
	return k.join(func(x Expression) string { return x.part.text(e) })
}

func (k Key) join(word func(Expression) string) string {
	words := make([]string, len(k))
	for i, e := range k {
		words[i] = word(e)
	}
	return strings.Join(words, " . ")
}

// anonymous tells whether a type has no name, so that declarations need typeof. Only the last part may have such.
func (k Key) anonymous() bool { return k[len(k)-1].datatype.name == "" }

// registerSize is in bytes. Each part of a concatenation begins a new register.
const registerSize = 4

// width is how many bytes a part takes in registers.
func (k Key) width(part Expression) int {
	size := int(part.datatype.size)
	if len(k) > 1 {
		size = (size + registerSize - 1) / registerSize * registerSize
	}
	return size
}

// datatype is nft's number of the type, and the size of a value in bytes.
func (k Key) datatype() (number, size uint32) {
	for _, e := range k {
		number = number<<typeBits | e.datatype.number
		size += uint32(k.width(e))
	}
	return number, size
}

// append appends an element's values in registers' bytes.
func (k Key) append(b []byte, e Element) []byte {
	for _, x := range k {
		end := len(b) + k.width(x)
		for b = x.part.append(b, e); len(b) < end; {
			b = append(b, 0)
		}
	}
	return b
}

// Parse reads what append writes. Bytes of another size are not of this key, and give the zero element.
func (k Key) Parse(b []byte) Element {
	var e Element
	for _, x := range k {
		width := k.width(x)
		if len(b) < width {
			return Element{}
		}
		x.part.parse(b[:x.datatype.size], &e)
		b = b[width:]
	}
	return e
}

// typeof is how nft stores a concatenation in a set's userdata, to list it as typeof: on each level a number of a kind,
// and its details.
func (k Key) typeof() []byte {
	var parts nfnl.Userdata
	for i, e := range k {
		var details nfnl.Userdata
		for j, n := range e.typeof[1:] {
			details.Uint32(byte(j), uint32(n))
		}
		parts.Bytes(byte(i), typeofPair(e.typeof[0], details))
	}
	return typeofPair(typeofConcat, parts)
}

func typeofPair(kind int, details nfnl.Userdata) (u nfnl.Userdata) {
	u.Uint32(0, uint32(kind))
	u.Bytes(1, details)
	return u
}
