package nft

// datatype is one of nft's data types.
type datatype struct {
	name    string // as set declarations have it; "" = they need typeof
	number  uint32 // as nft keeps it in the kernel (TYPE_... of its datatype.h)
	size    uint32 // of a value, in bytes
	bitmask bool   // an implicit comparison is true if any of the bits is set
}

// typeBits is how many bits of a concatenation's number each type has.
const typeBits = 6

func integer() datatype     { return datatype{number: 4, size: 4} }
func inetProto() datatype   { return datatype{name: "inet_proto", number: 12, size: 1} }
func inetService() datatype { return datatype{name: "inet_service", number: 13, size: 2} }
func ipv4Addr() datatype    { return datatype{name: "ipv4_addr", number: 7, size: 4} }
func ipv6Addr() datatype    { return datatype{name: "ipv6_addr", number: 8, size: 16} }
