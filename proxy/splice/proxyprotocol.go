package splice

import (
	"encoding/binary"
	"net/netip"
)

// The binary header of the PROXY protocol (proxy-protocol.txt of HAProxy, 2.2): a signature, version 2 and the command
// PROXY, the family with the transport STREAM, and the length of what follows: source, destination and their ports.
const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyCommand   = 0x21
	proxyTCP4      = 0x11
	proxyTCP6      = 0x21
	proxyMost      = 52
)

// proxyHeader is the header with which an endpoint learns the address of the client and the one that it dialled, both
// of one family.
func proxyHeader(client, dst netip.AddrPort) []byte {
	family, size := byte(proxyTCP4), byte(2*4+2*2)
	if client.Addr().Is6() {
		family, size = proxyTCP6, 2*16+2*2
	}
	h := append(make([]byte, 0, proxyMost), proxySignature...)
	h = append(h, proxyCommand, family, 0, size)
	h = append(h, client.Addr().AsSlice()...)
	h = append(h, dst.Addr().AsSlice()...)
	h = binary.BigEndian.AppendUint16(h, client.Port())
	return binary.BigEndian.AppendUint16(h, dst.Port())
}
