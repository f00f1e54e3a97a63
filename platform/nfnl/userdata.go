package nfnl

import "encoding/binary"

// Types of userdata, what nft keeps for itself in sets and elements (libnftnl/udata.h).
const (
	NFTNL_UDATA_SET_KEYBYTEORDER = 0
	NFTNL_UDATA_SET_KEY_TYPEOF   = 3
	NFTNL_UDATA_SET_DATA_TYPEOF  = 4
	NFTNL_UDATA_SET_ELEM_COMMENT = 0
)

// Userdata is a list of entries of a type, a length and a value of up to 255 bytes, which grows.
type Userdata []byte

// Bytes appends an entry.
func (u *Userdata) Bytes(kind byte, value []byte) {
	*u = append(append(*u, kind, byte(len(value))), value...)
}

// String appends a string, which ends with a zero byte.
func (u *Userdata) String(kind byte, value string) {
	*u = append(append(append(*u, kind, byte(len(value)+1)), value...), 0)
}

// Uint32 appends a number, which is little-endian on every machine.
func (u *Userdata) Uint32(kind byte, value uint32) {
	*u = binary.LittleEndian.AppendUint32(append(*u, kind, 4), value)
}

// Find is the value of the first entry of a type, nil if there is none.
func (u Userdata) Find(kind byte) []byte {
	for len(u) >= 2 && len(u) >= 2+int(u[1]) {
		value := u[2 : 2+int(u[1])]
		if u[0] == kind {
			return value
		}
		u = u[2+len(value):]
	}
	return nil
}
