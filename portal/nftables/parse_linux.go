package nftables

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// parseElement reads an element of a set, as the kernel lists it.
func (f family) parseElement(s *set, list []byte) (filled, error) {
	out := filled{entry: entry{set: s}}
	err := decode(list, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			d.Do(func(b []byte) error {
				return decode(b, func(d *netlink.AttributeDecoder) { out.element = f.parseKey(s.key, d.Bytes()) })
			})
		case unix.NFTA_SET_ELEM_DATA:
			d.Do(func(b []byte) error { return f.parseData(s.data, b, &out.value) })
		case unix.NFTA_SET_ELEM_USERDATA:
			out.comment, _ = userdata.GetString(d.Bytes(), userdata.NFTNL_UDATA_SET_ELEM_COMMENT)
		}
	})
	return out, err
}

// parseKey reads what keyBytes writes. A key of another size is none of ours, and gives an element that nobody wants.
func (f family) parseKey(k key, b []byte) element {
	var e element
	for _, part := range k {
		size := 4
		if part == bySource || part == byDestination {
			size = int(f.width()) * 4
		}
		if len(b) < size {
			return element{}
		}
		switch part {
		case bySource:
			e.source, _ = netip.AddrFromSlice(b[:size])
		case byDestination:
			e.destination, _ = netip.AddrFromSlice(b[:size])
		case byProtocol:
			e.protocol = service.Protocol(b[0])
		case byPort:
			e.port = binary.BigEndian.Uint16(b)
		case bySlot:
			e.slot = binary.NativeEndian.Uint32(b)
		}
		b = b[size:]
	}
	return e
}

func (f family) parseData(kind data, list []byte, v *value) error {
	return decode(list, func(d *netlink.AttributeDecoder) {
		switch b := d.Bytes(); kind {
		case verdicts:
			v.verdict = parseVerdict(b)
		case ports:
			if len(b) >= 2 {
				v.endpoint = netip.AddrPortFrom(netip.Addr{}, binary.BigEndian.Uint16(b))
			}
		case endpoints:
			if size := int(f.width()) * 4; len(b) >= size+2 {
				addr, _ := netip.AddrFromSlice(b[:size])
				v.endpoint = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[size:]))
			}
		}
	})
}

// parseVerdict knows those that lead elsewhere; maps of ours have no others.
func parseVerdict(list []byte) verdict {
	var v verdict
	decode(list, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_VERDICT_CODE:
			v.word = choose(int32(d.Uint32()) == unix.NFT_GOTO, "goto", "other")
		case unix.NFTA_VERDICT_CHAIN:
			v.chain = d.String()
		}
	})
	return v
}
