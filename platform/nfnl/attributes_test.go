package nfnl

import (
	"bytes"
	"testing"
)

// Nested attributes, strings and numbers are decoded as they were appended.
func TestAttributes(t *testing.T) {
	var a Attributes
	a.String(1, "table")
	a.Nest(2, func() {
		a.Uint32(3, 7)
		a.Uint8(4, 9)
	})
	a.Uint64(5, 1<<40)
	var name string
	var inner, small, long uint64
	err := Decode(a, func(d *Decoder) {
		switch d.Type() {
		case 1:
			name = d.String()
		case 2:
			d.Do(func(list []byte) error {
				return Decode(list, func(d *Decoder) {
					if d.Type() == 3 {
						inner = uint64(d.Uint32())
					} else {
						small = uint64(d.Uint8())
					}
				})
			})
		case 5:
			long = d.Uint64()
		}
	})
	if err != nil || name != "table" || inner != 7 || small != 9 || long != 1<<40 || len(a)%alignment != 0 {
		t.Errorf("%q %d %d %d, %v of %x", name, inner, small, long, err, []byte(a))
	}
}

// Userdata is other programs' too: an entry that claims more bytes than there are is not found.
func TestUserdata(t *testing.T) {
	var u Userdata
	u.Uint32(3, 5)
	u.String(4, "shop/cart")
	if got := string(u.Find(4)); got != "shop/cart\x00" {
		t.Errorf("found %q", got)
	}
	for end := range len(u) {
		if got := u[:end].Find(4); got != nil {
			t.Errorf("found %q in %x", got, []byte(u[:end]))
		}
	}
}

// FuzzListing: whatever the kernel lists, or another program has put into it, is decoded without trust in its shape.
func FuzzListing(f *testing.F) {
	var rule, expression Attributes
	expression.String(NFTA_EXPR_NAME, Counter)
	expression.Nest(NFTA_EXPR_DATA, func() { expression.Uint64(NFTA_COUNTER_PACKETS, 1<<40) })
	rule.List(1, expression)
	f.Add([]byte(rule))
	f.Add([]byte(expression))
	f.Add([]byte{4, 1, 'a', 3, 4, 'b', 'c', 'd', 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for kind := range 8 {
			if value := Userdata(b).Find(byte(kind)); !bytes.Contains(b, value) {
				t.Errorf("%x has %x of type %d", b, value, kind)
			}
		}
		_, _ = Packets(b)
		_, _ = CounterPackets(b)
		m := Message{Data: b}
		if name, _ := process(m); !bytes.Contains(b, []byte(name)) {
			t.Errorf("%x is of process %q", b, name)
		}
		if InTable(m, NFPROTO_IPV4, "portald") && !bytes.Contains(b, []byte("portald")) {
			t.Errorf("%x is in the table", b)
		}
	})
}
