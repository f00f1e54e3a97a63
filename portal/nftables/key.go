package nftables

import (
	"strings"

	"github.com/portald/portald/portal/nftables/nfnl"
)

// key is an expression or a concatenation of several: what a set is looked up by, or the data of a map.
type key []expression

// text is how nft reads the key from a packet.
func (k key) text() string { return k.join(func(e expression) string { return e.text }) }

// types are those of its parts.
func (k key) types() string { return k.join(func(e expression) string { return e.datatype.name }) }

// values are an element's.
func (k key) values(e element) string {
	return k.join(func(x expression) string { return x.part.text(e) })
}

func (k key) join(word func(expression) string) string {
	words := make([]string, len(k))
	for i, e := range k {
		words[i] = word(e)
	}
	return strings.Join(words, " . ")
}

// anonymous tells whether a part's type has no name, so that only typeof can declare the key.
func (k key) anonymous() bool { return k[len(k)-1].datatype.name == "" }

// registerSize is the size of a register; each part of a concatenation begins a new one.
const registerSize = 4

// width is how many bytes a part takes in registers.
func (k key) width(part expression) int {
	size := int(part.datatype.size)
	if len(k) > 1 {
		size = (size + registerSize - 1) / registerSize * registerSize
	}
	return size
}

// datatype is nft's number of the type, and the size of a value in bytes.
func (k key) datatype() (number, size uint32) {
	for _, e := range k {
		number = number<<typeBits | e.datatype.number
		size += uint32(k.width(e))
	}
	return number, size
}

// append appends an element's values as registers hold them.
func (k key) append(b []byte, e element) []byte {
	for _, x := range k {
		end := len(b) + k.width(x)
		for b = x.part.append(b, e); len(b) < end; {
			b = append(b, 0)
		}
	}
	return b
}

// parse reads what append writes. Values of another size are not of this key, and give an element that is none of ours.
func (k key) parse(b []byte) element {
	var e element
	for _, x := range k {
		width := k.width(x)
		if len(b) < width {
			return element{}
		}
		x.part.parse(b[:x.datatype.size], &e)
		b = b[width:]
	}
	return e
}

// typeof is what nft keeps of a concatenation in a set's userdata, for declarations by typeof: each level is a pair of
// a number and what that is about.
func (k key) typeof() []byte {
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
